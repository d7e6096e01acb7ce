"""Installed skills as the catalogue records them."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project, SkillName
from skillbus.contracts.network import NetworkPlace


class SkillLimits(Message):
    """Limits that a skill asks for. A lower one always counts, a higher one as far as the sandbox's operator allows."""

    wall_s: float | None = Field(default=None, gt=0, le=3600)
    cpu_s: int | None = Field(default=None, ge=1, le=3600)
    """Of each process."""
    memory_mib: int | None = Field(default=None, ge=32, le=1_048_576)
    """Of the whole tree of processes."""
    processes: int | None = Field(default=None, ge=1, le=4096)
    """Threads count."""
    output_mib: int | None = Field(default=None, ge=1, le=64)
    """Standard output and standard error together."""
    artifacts: int | None = Field(default=None, ge=0, le=1000)
    artifacts_mib: int | None = Field(default=None, ge=1, le=1024)
    work_mib: int | None = Field(default=None, ge=1, le=65_536)


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


class SkillFinding(Message):
    """Something that the validation of a package has to say."""

    code: str
    message: str
    where: str = ""
    """The file or field it is about."""


class NetworkCallSite(Message):
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
    network: tuple[NetworkCallSite, ...] = ()
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
    warnings: tuple[SkillFinding, ...] = ()
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
