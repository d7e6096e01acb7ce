"""One way to open a store, whichever engine the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skillbus.vectors.errors import VectorStoreRejected
from skillbus.vectors.store import VectorStore


@asynccontextmanager
async def open_vector_store(
    url: str | None,
    path: Path | None,
    *,
    api_key: str | None = None,
    prefer_grpc: bool = False,
    timeout_s: float = 5.0,
) -> AsyncIterator[VectorStore]:
    """Open the Qdrant server at `url` or, without one, Qdrant Edge in the directory `path`.

    A server need not be up yet: each call finds out for itself. An embedded store belongs to this process while it is
    open, so services that share a process share one store. Only the chosen engine's adapter is imported.

    Raises:
        VectorStoreLocked: another process, or another open store of this one, has `path` open.
        VectorStoreUnavailable: a collection in `path` cannot be read.
    """
    if url is not None:
        from skillbus.vectors.server.store import ServerSettings, open_server_store  # noqa: PLC0415

        settings = ServerSettings(url=url, api_key=api_key, prefer_grpc=prefer_grpc, timeout_s=timeout_s)
        async with open_server_store(settings) as server:
            yield server
    elif path is not None:
        from skillbus.vectors.edge.store import open_edge_store  # noqa: PLC0415

        async with open_edge_store(path) as edge:
            yield edge
    else:
        raise VectorStoreRejected("name the URL of a Qdrant server or a directory for the embedded vector store")
