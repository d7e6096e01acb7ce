"""Settings of the embedder."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class EmbedderSettings(BaseSettings):
    """Read from `SKILLBUS_EMBEDDER_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_EMBEDDER_", frozen=True)

    model_threads: int = Field(default=1, ge=1)
    """Threads of one call of the model. More do not help short texts."""
    slots: int = Field(default=1, ge=1)
    """Calls of the model at the same time."""
    queue_texts: int = Field(default=4096, ge=1)
    """Texts that may wait; more are refused with 429."""
    load_wait_s: float = Field(default=8.0, ge=0)
    """How long a request waits for a model that is still being loaded, before it is answered without dense vectors."""
