"""Addresses and properties of a Qdrant server, without its client, whose import takes a second."""

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Properties of a server, or of a cluster of servers, beyond its addresses."""

    api_key: str | None = None
    grpc_port: int = 6334
    """Port of gRPC on each host. 0 leaves gRPC unused, for a server of which only REST can be reached."""
    shards: int | None = None
    """Shards of new collections; the server decides if it is None."""
    replicas: int | None = None
    """Copies of each shard of new collections, on as many nodes; the server decides if it is None."""


def split_urls(urls: str) -> list[str]:
    """Return the URLs of a list with commas. Raises ValueError for what is no URL of a server."""
    found = [url.strip() for url in urls.split(",") if url.strip()]
    for url in found:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is no URL of a Qdrant server: write http://host:6333, several with commas")
    if not found:
        raise ValueError("name the URL of a Qdrant server: http://host:6333, several with commas")
    return found
