"""Requests above what a gateway can answer, over real sockets and with a real NATS."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

from skillbus.common.bus.responder import route
from skillbus.contracts.indexer.tools import PUT_TOOLS, PutTools, ToolsPut
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.gateway.wiring import Gateway

from .conftest import OWNER, Serve

FLOOD = 90


@pytest.fixture
async def crowd(gateway: Gateway) -> AsyncGenerator[httpx.AsyncClient]:
    """The owner's client with as many connections as it has requests."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=OWNER, timeout=30, trust_env=False, limits=limits
    ) as client:
        yield client


async def search(client: httpx.AsyncClient, query: str, key: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return await client.post("/api/tools/search", json={"query": query}, headers=headers)


async def test_a_flood_of_one_key_is_refused_at_once_and_another_key_is_served_next(
    crowd: httpx.AsyncClient, serve: Serve
) -> None:
    made = await crowd.post("/api/keys", json={"label": "calm", "projects": ["default"], "role": "reader"})
    go_on, is_calm_served, started = asyncio.Event(), asyncio.Event(), list[str]()

    async def find(request: SearchTools) -> ToolsFound:
        started.append(request.query)
        if request.query == "calm":
            is_calm_served.set()
        await go_on.wait()
        return ToolsFound(results=(), took_ms=1)

    await serve(route(SEARCH_TOOLS, find))
    async with asyncio.timeout(25):
        flood = [asyncio.create_task(search(crowd, "flood")) for _ in range(FLOOD)]
        done, _ = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        refused = [task.result() for task in done]
        for path in ("/healthz", "/metrics", "/api/session"):
            assert (await crowd.get(path)).status_code == 200
        before = len(started)
        calm = asyncio.create_task(search(crowd, "calm", made.json()["key"]))
        await is_calm_served.wait()  # those in flight hang, and give their places back after a second
        go_on.set()
        answered = await calm
        replies = await asyncio.gather(*flood)
    assert answered.status_code == 200
    assert "calm" in started[: before + 24], "it waits for places, not for the 64 of the flood that wait before it"
    assert {reply.status_code for reply in refused} == {429}
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)
    assert refused[0].json()["code"] == "overloaded"
    assert any(reply.status_code == 200 for reply in replies)


async def test_imports_that_take_long_leave_searches_their_places(crowd: httpx.AsyncClient, serve: Serve) -> None:
    go_on, is_importing = asyncio.Event(), asyncio.Event()

    async def put(request: PutTools) -> ToolsPut:
        is_importing.set()
        await go_on.wait()
        raise AssertionError

    async def find(_: SearchTools) -> ToolsFound:
        return ToolsFound(results=(), took_ms=1)

    await serve(route(PUT_TOOLS, put), route(SEARCH_TOOLS, find))
    line = b'{"source": "test", "id": "a", "name": "a", "description": "does a"}'
    imports = [asyncio.create_task(crowd.put("/api/tools", content=line)) for _ in range(20)]
    async with asyncio.timeout(20):
        await is_importing.wait()
        for _ in range(5):
            assert (await search(crowd, "x")).status_code == 200
    assert not any(task.done() for task in imports)
    for task in imports:
        task.cancel()
    await asyncio.wait(imports)
    go_on.set()
