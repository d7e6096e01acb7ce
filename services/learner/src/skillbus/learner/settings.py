"""Settings of the learner."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _none_if_empty(value: object) -> object:
    return value or None


class LearnerSettings(BaseSettings):
    """Read from `SKILLBUS_LEARNER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_LEARNER_", frozen=True)

    data: Path = Path("data")
    """Holds `knowledge.db` unless `database_url` says otherwise."""
    database_url: Annotated[SecretStr | None, BeforeValidator(_none_if_empty)] = None
    """Where knowledge is kept: `sqlite:///path`, or `postgresql://user:password@host/name`."""
    wait_indexed_s: float = Field(default=2.0, ge=0, le=30)
    """How long the reply to a change waits for the index to have it. It is found from the reply on in any case."""
    keep_usage_days: int = Field(default=180, ge=1, le=3_650)
    """How long searches and contexts are remembered: statistics are of that time. Feedback stays."""

    def record_url(self) -> str:
        """Where knowledge is kept; with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data.absolute() / 'knowledge.db'}"
