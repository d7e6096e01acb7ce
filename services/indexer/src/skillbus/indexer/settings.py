"""Settings of the indexer."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class IndexerSettings(BaseSettings):
    """Settings from `SKILLBUS_INDEXER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_INDEXER_", frozen=True)

    data: Path = Path("data")
    """Data folder. Skills are unpacked to `skills/<name>` in it, and installed from there when put in by hand."""
    reconcile_every_s: float = Field(default=300.0, gt=0)
    """Interval between comparisons of catalogue, folders and index."""
    keep_old_index_s: float = Field(default=3600.0, gt=0)
    """Time for which the old index is kept and written after a switch, so that it can be rolled back."""
    switch_lease_s: float = Field(default=15.0, gt=0)
    """Time without progress after which a replica counts as gone and another one continues its switch."""
