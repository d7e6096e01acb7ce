"""Settings of the embedder."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _none_if_empty(value: object) -> object:
    return value or None


class EmbedderSettings(BaseSettings):
    """Read from `SKILLBUS_EMBEDDER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_EMBEDDER_", frozen=True)

    data: Path = Path("data")
    """Holds `embedder.db` unless `database_url` says otherwise, and `models`, where local models lie."""
    database_url: Annotated[SecretStr | None, BeforeValidator(_none_if_empty)] = None
    """Where providers and models are kept: `sqlite:///path`, or `postgresql://user:password@host/name`."""
    secrets_folder: Path = Path("/run/secrets")
    """The only folder below which an `api_key` of the form `file:PATH` may lie."""
    model_threads: int = Field(default=1, ge=1)
    """Threads of one call of the model. More do not help short texts."""
    slots: int = Field(default=1, ge=1)
    """Calls of the model at the same time."""
    queue_texts: int = Field(default=4096, ge=1)
    """Texts that may wait for one model, queries and documents each; more are refused with 429."""
    load_wait_s: float = Field(default=8.0, ge=0)
    """How long a request waits for a model that is still being loaded, before it is answered without dense vectors."""

    def registry_url(self) -> str:
        """Where providers and models are kept; with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data.absolute() / 'embedder.db'}"
