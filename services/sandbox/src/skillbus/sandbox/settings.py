"""Settings of the sandbox."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SandboxSettings(BaseSettings):
    """Read from `SKILLBUS_SANDBOX_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_SANDBOX_", frozen=True)

    data: Path = Path("data/sandbox")
    """Where skills are unpacked for their runs; a cache that may be deleted while nothing runs."""
    slots: int = Field(default=2, ge=1)
    """Runs at the same time."""
    warm: int = Field(default=2, ge=0, le=64)
    """Sandboxes that are started ahead and wait for runs, some 10 MB each."""
    waiting: int = Field(default=16, ge=0)
    """Runs that may wait for a slot; more are refused with 429."""
    wall_s: float = Field(default=60.0, gt=0)
    """The longest that a run may take; a request can ask for less."""
    memory_mib: int = Field(default=512, ge=64)
    kept_skills: int = Field(default=200, ge=1)
    """Skills that stay unpacked; the least recently run go first."""
