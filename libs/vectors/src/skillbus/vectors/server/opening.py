"""Opening of a store on a Qdrant server, or on a cluster of them."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qdrant_client import AsyncQdrantClient

from skillbus.vectors.errors import VectorStoreRejected
from skillbus.vectors.server.grpc_store import GrpcVectorStore, open_grpc_node
from skillbus.vectors.server.nodes import ServerNodes
from skillbus.vectors.server.rest_store import RestVectorStore
from skillbus.vectors.server_options import ServerOptions, split_urls


@asynccontextmanager
async def open_server_store(urls: str, options: ServerOptions, *, timeout_s: float) -> AsyncIterator[RestVectorStore]:
    """Open clients of the nodes at `urls`, a list with commas. The servers may start later.

    `timeout_s` limits each call, connecting included.

    Raises:
        VectorStoreRejected: `urls` names no server.
    """
    try:
        addresses = split_urls(urls)
    except ValueError as error:
        raise VectorStoreRejected(str(error)) from error
    # The key is sent as a header: given as `api_key`, the client assumes TLS and warns about plain-text connections.
    headers = {"api-key": options.api_key} if options.api_key is not None else None
    clients = [
        AsyncQdrantClient(
            url=address,
            headers=headers,
            timeout=max(1, math.ceil(timeout_s)),
            pool_size=32,
            check_compatibility=False,  # the check is a thread that only warns; health() returns the version
        )
        for address in addresses
    ]
    shown = ", ".join(addresses)
    rest = ServerNodes(shown, clients, timeout_s)
    if options.grpc_port:
        nodes = [open_grpc_node(address, options.grpc_port, options.api_key) for address in addresses]
        store: RestVectorStore = GrpcVectorStore(rest, ServerNodes(shown, nodes, timeout_s), options)
    else:
        store = RestVectorStore(rest, options)
    try:
        yield store
    finally:
        await store.close()
