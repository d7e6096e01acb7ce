"""Kind of work of every route, and the reply to a request that is refused at once."""

import asyncio
import re

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from skillbus.common.admission.fair_queue import WorkKind
from skillbus.common.admission.gate import AdmissionGate
from skillbus.gateway.adapters.admission_layer import AdmissionLayer
from skillbus.gateway.adapters.problem_response import make_problem_response
from skillbus.gateway.domain.access.principal import CALLER, OWNER
from skillbus.gateway.domain.access.work_kind import find_work

from .fakes import KEY, World


async def _list_routes() -> list[tuple[str, str, dict[str, object]]]:
    async with World().client(KEY) as client:
        document = (await client.get("/openapi.json")).json()
    return [
        (method.upper(), re.sub(r"\{\w+\}", "x", path), operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


async def test_streams_are_always_let_in_and_runs_hold_no_place() -> None:
    for method, path, operation in await _list_routes():
        work = find_work(method, path)
        assert (work is None) >= bool(operation.get("x-stream")), path
        assert (work is not None and work.kind is WorkKind.RUN) >= bool(operation.get("x-run")), path


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/metrics"),
        ("GET", "/api/status"),
        ("POST", "/api/session"),
        ("DELETE", "/api/runs/a"),
        ("DELETE", "/v1/chat/runs/a"),
        ("GET", "/mcp"),
    ],
)
def test_what_shows_the_load_or_ends_work_is_always_let_in(method: str, path: str) -> None:
    assert find_work(method, path) is None


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/api/tools/search", WorkKind.READ),
        ("GET", "/api/tools", WorkKind.READ),
        ("POST", "/mcp", WorkKind.READ),
        ("PUT", "/api/tools", WorkKind.IMPORT),
        ("POST", "/api/knowledge/import", WorkKind.IMPORT),
        ("POST", "/api/skills", WorkKind.IMPORT),
        ("POST", "/api/skills/x/run", WorkKind.RUN),
        ("POST", "/api/learn/logs", WorkKind.RUN),
    ],
)
def test_searches_imports_and_runs_are_told_apart(method: str, path: str, kind: WorkKind) -> None:
    work = find_work(method, path)
    assert work is not None
    assert work.kind is kind


async def _fill(gate: AdmissionGate) -> list[asyncio.Task[object]]:
    waiting: list[asyncio.Task[object]] = []
    await gate.admit(OWNER.name)
    while not waiting or not waiting[-1].done():
        waiting.append(asyncio.create_task(gate.admit(OWNER.name)))
        await asyncio.sleep(0)
    return waiting


@pytest.mark.parametrize("path", ["/api/tools/search", "/v1/embeddings"])
async def test_a_refused_request_gets_429_in_the_form_of_its_path_with_retry_after(path: str) -> None:
    gate = AdmissionGate("test", lowest=1, highest=1)
    waiting = await _fill(gate)

    async def reach(_: Scope, __: Receive, ___: Send) -> None:
        raise AssertionError

    layer = AdmissionLayer(reach, gate, lambda _, problem: make_problem_response(problem))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER] = OWNER
        await layer(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for _ in range(2):
            reply = await client.post(path, json={"query": "x"})
            assert reply.status_code == 429
            assert int(reply.headers["Retry-After"]) >= 1
    if path.startswith("/v1/"):
        assert reply.json()["error"]["code"] == "rate_limit_exceeded"
        assert reply.headers["x-should-retry"] == "true"
    else:
        assert reply.json()["code"] == "overloaded"
        assert reply.json()["retryable"]
        assert reply.json()["details"]["retry_after_s"] >= 1
    for task in waiting[:-1]:
        task.cancel()
    assert waiting[-1].exception()
