"""What the indexer answers, and the facts it publishes about skills."""

from base64 import b64encode
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint, Event, health_of
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Content, Empty, Message, Project, SkillName, without_nul
from skillbus.contracts.network import NetworkPlace
from skillbus.contracts.skill_limits import SkillLimits
from skillbus.contracts.smallest_skill import HELLO

SERVICE: Final = "indexer"


class Runtime(StrEnum):
    """What runs a script."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


class ArgsMode(StrEnum):
    """How an entry point takes its arguments."""

    STDIN_JSON = "stdin-json"
    ARGV = "argv"
    NONE = "none"


class EntryPoint(Message):
    """One thing that a skill can do when it is run."""

    action: str
    script: str
    """Path inside the skill, with forward slashes."""
    runtime: Runtime
    args_mode: ArgsMode
    input_schema: dict[str, JsonValue] | None = None
    """JSON Schema of the arguments; absent when the skill does not say."""
    description: str | None = None


class Finding(Message):
    """Something that the validation of a package has to say."""

    code: str
    message: str
    where: str = ""
    """The file or field it is about."""


class NetworkWish(Message):
    """A place in a script that would reach for the network, which a run has only as far as it was approved."""

    file: str
    line: int
    what: str
    """The module or command: `requests`, `curl`."""


class SkillScan(Message):
    """What a look at a package's files found. Nothing of it is run for that."""

    files: int
    unpacked_bytes: int
    scripts: tuple[str, ...] = ()
    """Files that a runtime could run; the first hundred."""
    network: tuple[NetworkWish, ...] = ()
    """The first hundred."""
    executables: tuple[str, ...] = ()
    """Files that are no text and that a machine could run, as ELF or PE; the first hundred."""
    unread: tuple[str, ...] = ()
    """Scripts that were not looked into, being too large, or too many together; the first hundred."""


class SkillVersion(Message):
    """A package that was installed under the name of a skill, and can be gone back to."""

    content_digest: str
    digest: str
    """Of the package as it came."""
    version: str | None = None
    description: str
    """The first 500 characters."""
    size_bytes: int = 0
    """Size of the package as it came."""
    installed_at: datetime
    """When it became the current one."""
    reason: Literal["installed", "updated", "described", "rolled_back"]


class Skill(Message):
    """An installed skill, as the catalogue records it."""

    project: Project = DEFAULT_PROJECT
    name: SkillName
    description: str
    version: str | None = None
    tags: tuple[str, ...] = ()
    license: str | None = None
    digest: str
    """SHA-256 of the package as it came, hex."""
    content_digest: str
    """SHA-256 of the package as it is kept: packed again, so that the same files always have the same one."""
    size_bytes: int
    """Size of the package as it came."""
    entry_points: tuple[EntryPoint, ...] = ()
    default_action: str | None = None
    warnings: tuple[Finding, ...] = ()
    installed_at: datetime
    updated_at: datetime
    indexed: bool = False
    """Whether search can find it already."""
    enabled: bool = True
    """A disabled skill is neither found nor run."""
    pinned: bool = False
    """Whether only the package with this `content_digest` may be installed under the name."""
    scan: SkillScan | None = None
    """Absent for a skill that was installed before packages were looked at."""
    limits: SkillLimits | None = None
    """What the skill wants its runs to be limited to."""
    network: tuple[NetworkPlace, ...] = ()
    """What of the network the skill wants to reach when it runs: exact places, as `host:port`."""
    network_approved: tuple[NetworkPlace, ...] = ()
    """Of these, what an operator has approved: all that its runs reach."""


class InstallSkill(Message):
    """A skill package to install: a zip with a SKILL.md, inline or put into the bucket `packages` first."""

    project: Project = DEFAULT_PROJECT
    package: Content


class SkillInstalled(Message):
    """What became of a package."""

    outcome: Literal["installed", "updated", "unchanged"]
    skill: Skill


NewDescription = Annotated[
    str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True), AfterValidator(without_nul)
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
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    breaches: tuple[Finding, ...] = ()
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


class NameSkill(Message):
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
    errors: tuple[Finding, ...]


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
    request=NameSkill,
    reply=SkillUninstalled,
    summary="Remove a skill: folder, vectors, package and catalogue entry.",
    raises=(*_SKILL_NOT_FOUND, ErrorCode.CONFLICT),
    timeout_s=30.0,
    example={"name": "calculate"},
)
GET_SKILL: Final = Endpoint(
    service=SERVICE,
    name="get_skill",
    request=NameSkill,
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
    request=NameSkill,
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
HEALTH: Final = health_of(SERVICE)

SKILL_INSTALLED: Final = Event(SERVICE, "skill", "installed", SkillChanged, "A new skill is in the catalogue.")
SKILL_UPDATED: Final = Event(SERVICE, "skill", "updated", SkillChanged, "A skill has a new package, or another state.")
SKILL_INDEXED: Final = Event(SERVICE, "skill", "indexed", SkillChanged, "Search can find a skill as it is now.")
SKILL_REMOVED: Final = Event(SERVICE, "skill", "removed", SkillRemoved, "A skill was uninstalled.")
UPLOAD_TAKEN: Final = Event(SERVICE, "upload", "taken", UploadTaken, "An upload was installed, or changes nothing.")
UPLOAD_REJECTED: Final = Event(SERVICE, "upload", "rejected", UploadRejected, "An upload is not a valid skill.")
