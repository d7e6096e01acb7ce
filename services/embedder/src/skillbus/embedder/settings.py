"""Settings of the embedder."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from skillbus.common.outbound.settings import OutboundSettings


class EmbedderSettings(OutboundSettings):
    """Settings from `SKILLBUS_EMBEDDER_*`, and `SKILLBUS_SECRETS`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_EMBEDDER_", frozen=True, populate_by_name=True)

    data: Path = Path("data")
    """Folder of `embedder.db` (unless `database_url` is set) and of `models`, the local models."""
    database_url: Annotated[SecretStr | None, BeforeValidator(lambda value: value or None)] = None
    """Database of providers and models: `sqlite:///path`, or `postgresql://user:password@host/name`."""
    model_threads: int = Field(default=1, ge=1)
    """Threads of one call of a local model. More do not help short texts."""
    slots: int = Field(default=1, ge=1)
    """Concurrent calls of a local model."""
    queue_texts: int = Field(default=4096, ge=1)
    """Texts that may wait for one model, queries and documents each. More are refused with 429."""
    load_wait_s: float = Field(default=8.0, ge=0)
    """Longest wait of a request for a model that is loading, before it is answered without dense vectors."""

    def build_registry_url(self) -> str:
        """Return the URL of the registry's database, with its password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data.absolute() / 'embedder.db'}"
