"""What a skill says about its own runs, as both the indexer and the sandbox read it."""

from pydantic import Field

from skillbus.contracts.message import Message


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
