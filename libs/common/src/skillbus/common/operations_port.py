"""A small HTTP port for operators: `/healthz`, `/readyz` and `/metrics` of one process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from skillbus.common.health import HealthSource
from skillbus.common.http_server import serve_http
from skillbus.contracts.message import JSON


@asynccontextmanager
async def open_operations_port(
    host: str, port: int, service: HealthSource, registry: CollectorRegistry
) -> AsyncGenerator[str]:
    """Serve the port while the context is open; gives its URL."""

    async def answer(path: str) -> tuple[int, str, bytes]:
        if path == "/healthz":
            return 200, "text/plain", b"ok\n"
        if path == "/readyz":
            health = await service.health()
            return (200 if health.ready else 503), JSON, health.model_dump_json().encode()
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(registry)
        return 404, "text/plain", b"there are /healthz, /readyz and /metrics\n"

    async def app(scope: Scope, _: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        status, kind, body = await answer(scope["path"])
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async with serve_http(app, host, port) as url:
        yield url
