"""Descriptions of tools over real sockets, and the command that sends them."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from skillbus.cli.client.connection import Remote, open_connection
from skillbus.cli.errors import ProblemError
from skillbus.common.bus.responder import route
from skillbus.contracts.indexer.tools import MAX_TOOLS, PUT_TOOLS, PutTools, ToolPut, ToolPutOutcome, ToolsPut
from skillbus.gateway.wiring import Gateway
from skillbus.standalone.nats_server import NatsServer

from .conftest import OWNER_KEY, Serve

TOOLS = 3 * MAX_TOOLS + 7
PARAMETERS = {"type": "object", "properties": {f"参数{number}": {"type": "string"} for number in range(20)}}
WAIT_S = 5


def line(number: int) -> bytes:
    tool = {"id": f"t/{number}", "name": f"工具 {number}", "parameters": PARAMETERS}
    return json.dumps(tool, ensure_ascii=False).encode() + b"\n"


async def put_all(request: PutTools) -> ToolsPut:
    ids = [str(tool["id"]) if isinstance(tool, dict) else None for tool in request.tools]
    return ToolsPut(results=tuple(ToolPut(id=it, outcome=ToolPutOutcome.CREATED) for it in ids), indexed=True)


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 64 * 1024):
        yield body[at : at + 64 * 1024]


async def test_thousands_of_descriptions_arrive_in_their_order(http: httpx.AsyncClient, serve: Serve) -> None:
    await serve(route(PUT_TOOLS, put_all))
    answer = await http.put("/api/tools", content=chunks(b"".join(map(line, range(TOOLS)))))
    report = answer.json()
    assert (answer.status_code, report["counts"]["created"]) == (200, TOOLS)
    assert [(it["line"], it["id"]) for it in report["results"]] == [(at + 1, f"t/{at}") for at in range(TOOLS)]


async def test_an_import_during_a_crash_of_nats_is_whole(
    http: httpx.AsyncClient, nats_server: NatsServer, serve: Serve
) -> None:
    asked = list[int]()

    async def crash_once(request: PutTools) -> ToolsPut:
        asked.append(len(request.tools))
        if len(asked) == 2:
            os.kill(nats_server.pid or 0, signal.SIGKILL)
        return await put_all(request)

    await serve(route(PUT_TOOLS, crash_once))
    answer = await http.put(
        "/api/tools", content=chunks(b"".join(map(line, range(TOOLS)))), params={"only": "problems"}
    )
    assert (answer.status_code, answer.json()["counts"]["created"]) == (200, TOOLS)


async def test_the_command_hears_why_a_large_file_of_something_else_is_refused(gateway: Gateway) -> None:
    """The refusal comes while megabytes are still to be sent."""
    body = b"id,name,description\n" * 400_000
    async with asyncio.timeout(2 * WAIT_S), open_connection(Remote(gateway.url, OWNER_KEY)) as connection:
        with pytest.raises(ProblemError) as refused:
            await connection.send("PUT", "/api/tools", content=chunks(body))
    assert (refused.value.status, refused.value.problem_code) == (400, "invalid_request")


async def test_a_caller_that_hangs_up_leaves_a_gateway_that_serves(
    gateway: Gateway, http: httpx.AsyncClient, serve: Serve
) -> None:
    await serve(route(PUT_TOOLS, put_all))
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    headers = (f"Host: {host}:{port}", f"Authorization: Bearer {OWNER_KEY}", "Content-Length: 1000000")
    head = "\r\n".join(("PUT /api/tools HTTP/1.1", *headers, "", ""))
    writer.write(head.encode() + line(1))
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    answer = await http.put("/api/tools", content=line(2))
    assert answer.json()["counts"]["created"] == 1
