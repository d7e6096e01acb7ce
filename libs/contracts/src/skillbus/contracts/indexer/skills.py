"""Requests about skills, and the events that the indexer publishes about them."""

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint, Event
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer.skill_record import Skill, SkillFinding, SkillScan, SkillVersion
from skillbus.contracts.message import (
    Content,
    Empty,
    Message,
    Project,
    ProjectMessage,
    SkillName,
    reject_nul,
)
from skillbus.contracts.network import PLACES_MAX, NetworkPlace

HELLO: Final = b64decode(
    "UEsDBBQAAAAAAAAAIVyJCYeaQgAAAEIAAAAIAAAAU0tJTEwubWQtLS0KbmFtZTogaGVsbG8KZGVzY3JpcHRpb246IFNheXMgaGVs"
    "bG8uIOaJk+aLm+WRvOOAggotLS0KIyBIZWxsbwpQSwECFAMUAAAAAAAAACFciQmHmkIAAABCAAAACAAAAAAAAAAAAAAAgAEAAAAA"
    "U0tJTEwubWRQSwUGAAAAAAEAAQA2AAAAaAAAAAAA"
)
"""Zip that holds only a SKILL.md: the smallest skill."""


class InstallSkill(ProjectMessage):
    """Skill package to install or check: a zip with a SKILL.md, inline or as an object in the bucket `packages`."""

    package: Content


class SkillInstalled(Message):
    """Result of an installation."""

    outcome: Literal["installed", "updated", "unchanged"]
    skill: Skill


NewDescription = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True), AfterValidator(reject_nul)
]
"""Description within the bounds of the Agent Skills format."""


class UpdateSkill(ProjectMessage):
    """New description of a skill. To change anything else, install a new package."""

    name: SkillName
    description: NewDescription


class SkillChecked(Message):
    """Result of a validation. Nothing is installed."""

    valid: bool
    """True if the package follows the Agent Skills format exactly: `breaches` is empty."""
    installable: bool
    """True if the package can be installed: `errors` is empty."""
    errors: tuple[SkillFinding, ...] = ()
    warnings: tuple[SkillFinding, ...] = ()
    breaches: tuple[SkillFinding, ...] = ()
    """Errors and warnings that violate the Agent Skills format."""
    name: str | None = None
    description: str | None = None
    scan: SkillScan | None = None


class PinSkill(ProjectMessage):
    """Change of the pin of a skill."""

    name: SkillName
    pinned: bool
    """True accepts only the current package under this name; false accepts every package."""


class RollBackSkill(ProjectMessage):
    """Rollback of a skill to an earlier package."""

    name: SkillName
    content_digest: str | None = None
    """Package to return to, from the skill's history. Absent means the one before the current package."""


class ApproveNetwork(ProjectMessage):
    """Network places that the runs of a skill may reach from now on. They replace the previous approval."""

    name: SkillName
    approved: tuple[NetworkPlace, ...] = Field(max_length=PLACES_MAX)
    """Approved places, each one from the skill's `network`. An empty list approves none."""


class SkillHistory(Message):
    """Packages of a skill, the current one first. At most 20 are kept."""

    name: SkillName
    versions: tuple[SkillVersion, ...]


class SkillSelector(ProjectMessage):
    """Name of the wanted skill."""

    name: SkillName


class SkillUninstalled(Message):
    """Uninstalled skill: its folder, vectors, package and catalogue entry are deleted."""

    name: SkillName
    digest: str


class ListSkills(ProjectMessage):
    """Query for one page of skills, ordered by name."""

    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = None
    tag: str | None = None
    enabled: bool | None = None
    text: str | None = Field(default=None, max_length=200)
    """List only skills with this text in their name or description, ignoring case."""


class SkillsListed(Message):
    """One page of skills."""

    skills: tuple[Skill, ...]
    total: int
    next: str | None = None


class IndexerStatus(Message):
    """State of the indexer."""

    skills: int
    tools: int = 0
    """Tools other than skills."""
    waiting: int
    """Skills in the catalogue that are not yet in the index."""
    points: int | None
    """Points in the index of tools. Absent if the vector store is not reachable."""
    collection: str | None
    """Live collection of the index of tools."""
    model: str | None
    """Model of the vectors in the live collection."""
    devices: int = 0
    """Devices of homes."""
    commands: int = 0
    """Commands that devices can be told."""


class SkillChanged(Message):
    """Skill that was installed, updated or indexed."""

    project: Project
    name: SkillName
    digest: str
    version: str | None = None


class SkillRemoved(Message):
    """Skill that was uninstalled."""

    project: Project
    name: SkillName
    digest: str


class UploadTaken(Message):
    """Valid upload to the bucket `skills`."""

    project: Project
    source: str
    """Name of the object."""
    outcome: Literal["installed", "updated", "unchanged"]
    name: SkillName
    digest: str


class UploadRejected(Message):
    """Upload to the bucket `skills`, or folder under `data/skills`, that is not a valid skill."""

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
    summary="Install a skill package, or update the installed skill with the same name.",
    raises=(ErrorCode.SKILL_REJECTED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={
        "package": {
            "size_bytes": len(HELLO),
            "sha256": sha256(HELLO).hexdigest(),
            "inline": b64encode(HELLO).decode(),
        }
    },
    act=AuditedAct(made="skill.name", details=("outcome",)),
)
UPDATE_SKILL: Final = Endpoint(
    service=SERVICE,
    name="update_skill",
    request=UpdateSkill,
    reply=SkillInstalled,
    summary="Change the description of a skill, in its SKILL.md too, and index it again.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.SKILL_REJECTED, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"name": "calculate", "description": "数学计算：对算术表达式求值。"},
    act=AuditedAct("name", made="skill.name"),
)
UNINSTALL_SKILL: Final = Endpoint(
    service=SERVICE,
    name="uninstall_skill",
    request=SkillSelector,
    reply=SkillUninstalled,
    summary="Uninstall a skill: delete its folder, vectors, package and catalogue entry.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate"},
    act=AuditedAct("name"),
)
GET_SKILL: Final = Endpoint(
    service=SERVICE,
    name="get_skill",
    request=SkillSelector,
    reply=Skill,
    summary="Return one skill of the catalogue.",
    is_read=True,
    raises=_SKILL_NOT_FOUND,
    example={"name": "calculate"},
)
LIST_SKILLS: Final = Endpoint(
    service=SERVICE,
    name="list_skills",
    request=ListSkills,
    reply=SkillsListed,
    summary="List one page of the installed skills.",
    is_read=True,
    example={"limit": 10},
)
CHECK_SKILL: Final = Endpoint(
    service=SERVICE,
    name="check_skill",
    request=InstallSkill,
    reply=SkillChecked,
    summary="Validate a skill package without installing it.",
    raises=(ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.NOT_FOUND),
    timeout_s=30.0,
    example=INSTALL_SKILL.example,
)
PIN_SKILL: Final = Endpoint(
    service=SERVICE,
    name="pin_skill",
    request=PinSkill,
    reply=Skill,
    summary="Pin a skill to its current package, or remove the pin.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"name": "calculate", "pinned": False},
    act=AuditedAct("name", details=("pinned",)),
)
ROLL_BACK_SKILL: Final = Endpoint(
    service=SERVICE,
    name="roll_back_skill",
    request=RollBackSkill,
    reply=SkillInstalled,
    summary="Roll a skill back to an earlier package.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.NOT_FOUND, ErrorCode.CONFLICT, ErrorCode.SKILL_REJECTED),
    stores_data=True,
    timeout_s=30.0,
    example={"name": "calculate"},
    act=AuditedAct("name", made="skill.name"),
)
GET_SKILL_HISTORY: Final = Endpoint(
    service=SERVICE,
    name="get_skill_history",
    request=SkillSelector,
    reply=SkillHistory,
    summary="List the packages of a skill, the current one first.",
    is_read=True,
    raises=_SKILL_NOT_FOUND,
    example={"name": "calculate"},
)
GET_STATUS: Final = Endpoint(
    service=SERVICE,
    name="get_status",
    request=Empty,
    reply=IndexerStatus,
    summary="Count skills, other tools, skills that wait to be indexed, devices and their commands.",
    is_read=True,
)
SKILL_INSTALLED: Final = Event(SERVICE, "skill", "installed", SkillChanged, "A new skill was added to the catalogue.")
SKILL_UPDATED: Final = Event(
    SERVICE, "skill", "updated", SkillChanged, "The package or the state of a skill was changed."
)
SKILL_INDEXED: Final = Event(SERVICE, "skill", "indexed", SkillChanged, "Search finds the current version of a skill.")
SKILL_REMOVED: Final = Event(SERVICE, "skill", "removed", SkillRemoved, "A skill was uninstalled.")
UPLOAD_TAKEN: Final = Event(
    SERVICE, "upload", "taken", UploadTaken, "An upload was installed, or equals the installed package."
)
UPLOAD_REJECTED: Final = Event(
    SERVICE, "upload", "rejected", UploadRejected, "An upload was rejected because it is not a valid skill."
)
APPROVE_NETWORK: Final = Endpoint(
    service=SERVICE,
    name="approve_network",
    request=ApproveNetwork,
    reply=Skill,
    summary="Set the network places that the runs of a skill may reach.",
    raises=(ErrorCode.SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    stores_data=True,
    timeout_s=30.0,
    example={"name": "calculate", "approved": []},
    act=AuditedAct("name", details=("approved",)),
)
