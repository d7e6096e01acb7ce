"""Opening of a store with either engine, by arguments or by the environment."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.vectors.errors import VectorStoreRejected
from skillbus.vectors.server_options import ServerOptions, split_urls
from skillbus.vectors.store import VectorStore


@asynccontextmanager
async def open_vector_store(
    url: str | None,
    path: Path | None,
    *,
    server: ServerOptions | None = None,
    timeout_s: float = 5.0,
) -> AsyncIterator[VectorStore]:
    """Open the Qdrant server at `url` or, without one, Qdrant Edge in the directory `path`.

    `url` may be a list with commas: the nodes of one cluster.

    The server need not be up yet: each call connects by itself. An embedded store belongs to this process while it is
    open, so services of one process share one store. Only the chosen engine's adapter is imported.

    Raises:
        VectorStoreLocked: `path` is open in another process, or in another store of this one.
        VectorStoreUnavailable: A collection in `path` cannot be read.
    """
    if url is not None:
        from skillbus.vectors.server.opening import open_server_store  # noqa: PLC0415

        async with open_server_store(url, server or ServerOptions(), timeout_s=timeout_s) as opened:
            yield opened
    elif path is not None:
        from skillbus.vectors.edge.store import open_edge_store  # noqa: PLC0415

        async with open_edge_store(path) as edge:
            yield edge
    else:
        raise VectorStoreRejected("name the URL of a Qdrant server or a directory for the embedded vector store")


class QdrantSettings(BaseSettings):
    """Settings from `SKILLBUS_QDRANT_*`, for services that run alone."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_QDRANT_", frozen=True)

    url: str
    """URL of the server, or of several nodes of a cluster, with commas.

    Qdrant Edge belongs to one process, so services in processes of their own need a server.
    """
    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    """File with the key, instead of `api_key`."""
    grpc_port: int = Field(default=6334, ge=0, le=65_535)
    """Port of gRPC on the hosts of `url`. 0 uses REST alone, which takes several times the CPU of a search."""
    shards: int | None = Field(default=None, ge=1, le=100)
    """Shards of new collections. Absent leaves it to the server."""
    replicas: int | None = Field(default=None, ge=1, le=16)
    """Copies of each shard of new collections, on as many nodes. Absent leaves it to the server."""
    timeout_s: float = Field(default=5.0, gt=0)

    @field_validator("url")
    @classmethod
    def _check_urls(cls, urls: str) -> str:
        split_urls(urls)
        return urls

    @field_validator("api_key_file")
    @classmethod
    def _check_key_file(cls, path: Path | None) -> Path | None:
        try:
            if path is not None:
                _read_key(path)
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot read {path} ({type(error).__name__}): `skillbus init-deploy` makes the file"
            raise ValueError(problem) from None
        return path


def _read_key(path: Path) -> str:
    return path.read_text("ascii").strip()


@asynccontextmanager
async def open_qdrant_server() -> AsyncGenerator[VectorStore]:
    """Open the server that the environment names.

    Raises:
        ValidationError: `SKILLBUS_QDRANT_URL` is missing, or the file with the key cannot be read.
    """
    settings = QdrantSettings()
    api_key = settings.api_key.get_secret_value() if settings.api_key else None
    if settings.api_key_file is not None:
        api_key = _read_key(settings.api_key_file)
    server = ServerOptions(api_key, settings.grpc_port, settings.shards, settings.replicas)
    async with open_vector_store(settings.url, None, server=server, timeout_s=settings.timeout_s) as store:
        yield store
