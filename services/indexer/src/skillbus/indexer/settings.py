"""Settings of the indexer."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class IndexerSettings(BaseSettings):
    """Read from `SKILLBUS_INDEXER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_INDEXER_", frozen=True)

    data: Path = Path("data")
    """Skills are unpacked to `skills/<name>` below it, and taken up from there when dropped by hand."""
    reconcile_every_s: float = Field(default=300.0, gt=0)
    """How often catalogue, folders and index are compared."""
    keep_old_index_s: float = Field(default=3600.0, gt=0)
    """How long the index of the model before is kept and written after a switch, so that it can be gone back to."""
    switch_lease_s: float = Field(default=15.0, gt=0)
    """A replica that has shown no progress for so long is taken for gone, and another goes on with its switch."""
