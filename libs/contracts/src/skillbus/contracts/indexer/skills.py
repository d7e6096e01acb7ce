"""Requests about skills, and the events that the indexer publishes about them."""

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer.skill_record import Skill, SkillFinding, SkillScan, SkillVersion
from skillbus.contracts.message import DEFAULT_PROJECT, Content, Empty, Message, Project, SkillName, reject_nul
from skillbus.contracts.network import PLACES_MAX, NetworkPlace

HELLO: Final = b64decode(
    "UEsDBBQAAAAAAAAAIVyJCYeaQgAAAEIAAAAIAAAAU0tJTEwubWQtLS0KbmFtZTogaGVsbG8KZGVzY3JpcHRpb246IFNheXMgaGVs"
    "bG8uIOaJk+aLm+WRvOOAggotLS0KIyBIZWxsbwpQSwECFAMUAAAAAAAAACFciQmHmkIAAABCAAAACAAAAAAAAAAAAAAAgAEAAAAA"
    "U0tJTEwubWRQSwUGAAAAAAEAAQA2AAAAaAAAAAAA"
)
"""A zip with a SKILL.md that says hello: the smallest skill."""


class InstallSkill(Message):
    """A skill package to install: a zip with a SKILL.md, inline or put into the bucket `packages` first."""

    project: Project = DEFAULT_PROJECT
    package: Content


class SkillInstalled(Message):
    """What became of a package."""

    outcome: Literal["installed", "updated", "unchanged"]
    skill: Skill


NewDescription = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True), AfterValidator(reject_nul)
]
"""A description as the Agent Skills format allows it."""


class UpdateSkill(Message):
    """A new description. Everything else of a skill changes by installing a new package."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    description: NewDescription


class SkillChecked(Message):
    """What the validation of a package says, without installing it."""

    valid: bool
    """Whether it follows the Agent Skills format to the letter: no breaches."""
    installable: bool
    """Whether it would be installed: no errors."""
    errors: tuple[SkillFinding, ...] = ()
    warnings: tuple[SkillFinding, ...] = ()
    breaches: tuple[SkillFinding, ...] = ()
    """Those of both that a strict reader of the format refuses the package for."""
    name: str | None = None
    description: str | None = None
    scan: SkillScan | None = None


class PinSkill(Message):
    """Have only the package that is installed now accepted under this name, or any again."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    pinned: bool


class RollBackSkill(Message):
    """Go back to an earlier package of a skill."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    content_digest: str | None = None
    """Of its history; the one before the current if absent."""


class SkillHistory(Message):
    """The packages of a skill, the current one first; at most twenty are kept."""

    name: SkillName
    versions: tuple[SkillVersion, ...]


class SkillSelector(Message):
    """One skill."""

    project: Project = DEFAULT_PROJECT
    name: SkillName


class SkillUninstalled(Message):
    """The skill is gone: folder, vectors, package and catalogue entry."""

    name: SkillName
    digest: str


class ListSkills(Message):
    """A page of the catalogue, ordered by name."""

    project: Project = DEFAULT_PROJECT
    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = None
    """The last name of the page before."""
    tag: str | None = None
    enabled: bool | None = None
    text: str | None = Field(default=None, max_length=200)
    """Only skills with this in their name or description, whatever the case."""


class SkillsListed(Message):
    """A page of skills; `next` is the `after` of the next one."""

    skills: tuple[Skill, ...]
    total: int
    """Of all pages."""
    next: str | None = None


class IndexerStatus(Message):
    """What the indexer holds and what it works with."""

    skills: int
    tools: int = 0
    """Tools that are no skills."""
    waiting: int
    """Skills that are in the catalogue but not yet in the vector store."""
    points: int | None
    """Points in the vector store; absent when it cannot be reached."""
    collection: str | None
    model: str | None


class SkillChanged(Message):
    """A skill was installed, updated or indexed."""

    project: Project
    name: SkillName
    digest: str
    version: str | None = None


class SkillRemoved(Message):
    """A skill was uninstalled."""

    project: Project
    name: SkillName
    digest: str


class UploadTaken(Message):
    """An upload to the bucket `skills` that is a valid skill."""

    project: Project
    source: str
    """Name of the object."""
    outcome: Literal["installed", "updated", "unchanged"]
    name: SkillName
    digest: str


class UploadRejected(Message):
    """An upload to the bucket `skills` or a folder under `data/skills` that is not a valid skill."""

    project: Project
    source: str
    """Name of the object or the folder."""
    errors: tuple[SkillFinding, ...]


_SKILL_NOT_FOUND = (ErrorCode.SKILL_NOT_FOUND,)


INSTALL_SKILL: Final = Endpoint(
    service=SERVICE,
    name="install_skill",
    request=InstallSkill,
    reply=SkillInstalled,
    summary="Install a skill package, or update the skill of that name.",
    raises=(ErrorCode.SKILL_REJECTED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={
        "package": {
            "size_bytes": len(HELLO),
            "sha256": sha256(HELLO).hexdigest(),
            "inline": b64encode(HELLO).decode(),
        }
    },
)


UPDATE_SKILL: Final = Endpoint(
    service=SERVICE,
    name="update_skill",
    request=UpdateSkill,
    reply=SkillInstalled,
    summary="Change a skill's description, in its SKILL.md too, and index it again.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.SKILL_REJECTED, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate", "description": "数学计算：对算术表达式求值。"},
)


UNINSTALL_SKILL: Final = Endpoint(
    service=SERVICE,
    name="uninstall_skill",
    request=SkillSelector,
    reply=SkillUninstalled,
    summary="Remove a skill: folder, vectors, package and catalogue entry.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate"},
)


GET_SKILL: Final = Endpoint(
    service=SERVICE,
    name="get_skill",
    request=SkillSelector,
    reply=Skill,
    summary="One skill of the catalogue.",
    raises=_SKILL_NOT_FOUND,
    example={"name": "calculate"},
)


LIST_SKILLS: Final = Endpoint(
    service=SERVICE,
    name="list_skills",
    request=ListSkills,
    reply=SkillsListed,
    summary="A page of the catalogue.",
    example={"limit": 10},
)


CHECK_SKILL: Final = Endpoint(
    service=SERVICE,
    name="check_skill",
    request=InstallSkill,
    reply=SkillChecked,
    summary="Whether a package is a valid skill, to the letter and well enough, without installing it.",
    raises=(ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.NOT_FOUND),
    timeout_s=30.0,
    example=INSTALL_SKILL.example,
)


PIN_SKILL: Final = Endpoint(
    service=SERVICE,
    name="pin_skill",
    request=PinSkill,
    reply=Skill,
    summary="Hold a skill at the package that is installed now, or let it go.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate", "pinned": False},
)


ROLL_BACK_SKILL: Final = Endpoint(
    service=SERVICE,
    name="roll_back_skill",
    request=RollBackSkill,
    reply=SkillInstalled,
    summary="Go back to an earlier package of a skill.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.SKILL_REJECTED),
    timeout_s=30.0,
    example={"name": "calculate"},
)


GET_SKILL_HISTORY: Final = Endpoint(
    service=SERVICE,
    name="get_skill_history",
    request=SkillSelector,
    reply=SkillHistory,
    summary="The packages that were installed under the name of a skill, the current one first.",
    raises=_SKILL_NOT_FOUND,
    example={"name": "calculate"},
)


GET_STATUS: Final = Endpoint(
    service=SERVICE,
    name="get_status",
    request=Empty,
    reply=IndexerStatus,
    summary="How many skills there are, and how many wait to be indexed.",
)


SKILL_INSTALLED: Final = Event(SERVICE, "skill", "installed", SkillChanged, "A new skill is in the catalogue.")


SKILL_UPDATED: Final = Event(SERVICE, "skill", "updated", SkillChanged, "A skill has a new package, or another state.")


SKILL_INDEXED: Final = Event(SERVICE, "skill", "indexed", SkillChanged, "Search can find a skill as it is now.")


SKILL_REMOVED: Final = Event(SERVICE, "skill", "removed", SkillRemoved, "A skill was uninstalled.")


UPLOAD_TAKEN: Final = Event(SERVICE, "upload", "taken", UploadTaken, "An upload was installed, or changes nothing.")


UPLOAD_REJECTED: Final = Event(SERVICE, "upload", "rejected", UploadRejected, "An upload is not a valid skill.")


class ApproveNetwork(Message):
    """What of the network the runs of a skill may reach, from now on: all of it is told each time."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    approved: tuple[NetworkPlace, ...] = Field(max_length=PLACES_MAX)
    """Of the places that the skill wants; none closes the network to it."""


APPROVE_NETWORK: Final = Endpoint(
    service=SERVICE,
    name="approve_network",
    request=ApproveNetwork,
    reply=Skill,
    summary="Approve what of the network the runs of a skill may reach.",
    raises=(ErrorCode.SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate", "approved": []},
)
