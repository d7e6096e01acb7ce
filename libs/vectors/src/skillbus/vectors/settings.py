"""Where the Qdrant server is, for services that run alone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.vectors.opening import open_vector_store
from skillbus.vectors.store import VectorStore


class QdrantSettings(BaseSettings):
    """Read from `SKILLBUS_QDRANT_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_QDRANT_", frozen=True)

    url: str
    """Qdrant Edge belongs to one process, so services of their own need a server."""
    api_key: SecretStr | None = None
    prefer_grpc: bool = False
    timeout_s: float = Field(default=5.0, gt=0)


@asynccontextmanager
async def open_qdrant_server() -> AsyncGenerator[VectorStore]:
    """The server that the environment names.

    Raises:
        ValidationError: `SKILLBUS_QDRANT_URL` is not set.
    """
    settings = QdrantSettings()
    api_key = settings.api_key.get_secret_value() if settings.api_key else None
    async with open_vector_store(
        settings.url, None, api_key=api_key, prefer_grpc=settings.prefer_grpc, timeout_s=settings.timeout_s
    ) as store:
        yield store
