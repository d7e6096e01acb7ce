"""Installed skills, as the catalogue records them."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from skillbus.contracts.message import Message, ProjectMessage, SkillName
from skillbus.contracts.network import NetworkPlace


class SkillLimits(Message):
    """Limits that a skill asks for in its SKILL.md, as `RunLimits` explains them.

    A limit below the operator's default always applies. A higher one applies up to the operator's ceiling.
    """

    wall_s: float | None = Field(default=None, gt=0, le=3600)
    cpu_s: int | None = Field(default=None, ge=1, le=3600)
    memory_mib: int | None = Field(default=None, ge=32, le=1_048_576)
    processes: int | None = Field(default=None, ge=1, le=4096)
    output_mib: int | None = Field(default=None, ge=1, le=64)
    artifacts: int | None = Field(default=None, ge=0, le=1000)
    artifacts_mib: int | None = Field(default=None, ge=1, le=1024)
    work_mib: int | None = Field(default=None, ge=1, le=65_536)


class Runtime(StrEnum):
    """Interpreter of a script."""

    PYTHON = "python"
    NODE = "node"
    BASH = "bash"


class ArgsMode(StrEnum):
    """Way in which an entry point receives its arguments."""

    STDIN_JSON = "stdin-json"
    """A JSON object on standard input."""
    ARGV = "argv"
    """Command-line options."""
    NONE = "none"
    """The script takes no arguments."""


class EntryPoint(Message):
    """Action of a skill and the script that performs it."""

    action: str
    script: str
    """Path inside the skill, with forward slashes."""
    runtime: Runtime
    args_mode: ArgsMode
    input_schema: dict[str, JsonValue] | None = None
    """JSON Schema of the arguments. Absent if the skill declares none."""
    description: str | None = None


class SkillFinding(Message):
    """Remark of the validation about a package."""

    code: str
    message: str
    where: str = ""
    """File or field that the remark is about."""


class NetworkCallSite(Message):
    """Line of a script that uses the network. A run reaches only the places that an operator approved."""

    file: str
    line: int
    what: str
    """Module or command: `requests`, `curl`."""


class SkillScan(Message):
    """Result of a static scan of a package: number, size and kinds of its files. Nothing is executed."""

    files: int
    unpacked_bytes: int
    scripts: tuple[str, ...] = ()
    """Files that a runtime can execute; the first 100."""
    network: tuple[NetworkCallSite, ...] = ()
    """Uses of the network in scripts; the first 100."""
    executables: tuple[str, ...] = ()
    """Binary files that a machine can execute, such as ELF and PE; the first 100."""
    unread: tuple[str, ...] = ()
    """Scripts that were not scanned because they are too large or too many; the first 100."""


class SkillVersion(Message):
    """Earlier or current package of a skill. The skill can be rolled back to it."""

    content_digest: str
    """SHA-256 of the stored package, in hexadecimal. It identifies the version."""
    digest: str
    """SHA-256 of the uploaded package, in hexadecimal."""
    version: str | None = None
    """Version that SKILL.md states."""
    description: str
    """First 500 characters of the description."""
    size_bytes: int = 0
    """Size of the uploaded package."""
    installed_at: datetime
    """Time when the package became the current one."""
    reason: Literal["installed", "updated", "described", "rolled_back"]
    """Cause of the change. `described` means a new description."""


class Skill(ProjectMessage):
    """Installed skill, as the catalogue records it."""

    name: SkillName
    description: str
    version: str | None = None
    """Version that SKILL.md states."""
    tags: tuple[str, ...] = ()
    license: str | None = None
    digest: str
    """SHA-256 of the uploaded package, in hexadecimal."""
    content_digest: str
    """SHA-256 of the stored package, in hexadecimal. Packages are packed again, so equal files have equal digests."""
    size_bytes: int
    """Size of the uploaded package."""
    entry_points: tuple[EntryPoint, ...] = ()
    """Actions of the skill. Empty for a skill that holds instructions only."""
    default_action: str | None = None
    """Action of a run that names none."""
    warnings: tuple[SkillFinding, ...] = ()
    installed_at: datetime
    updated_at: datetime
    indexed: bool = False
    """True if search finds the skill."""
    enabled: bool = True
    """False if the skill is neither found nor run."""
    pinned: bool = False
    """True if only the package with this `content_digest` may be installed under the name."""
    requires_approval: bool = False
    """True if an agent may run it only when a person approves the call."""
    scan: SkillScan | None = None
    """Absent for a skill that was installed before scans existed."""
    limits: SkillLimits | None = None
    network: tuple[NetworkPlace, ...] = ()
    """Places that the skill asks to reach during a run, as `host:port`."""
    network_approved: tuple[NetworkPlace, ...] = ()
    """Places of `network` that an operator approved. Runs reach no other place."""
