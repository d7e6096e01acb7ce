"""`skillbus mcp serve`: what its client learns when there is no server, or no key."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from skillbus.cli.tools.mcp_bridge import McpBridge

ASKED = [
    b'{"jsonrpc": "2.0", "id": "a", "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "method": "notifications/x"}\n',
]


async def bridge_lines(answer: httpx.MockTransport) -> list[dict[str, object]]:
    replies, answered = list[bytes](), asyncio.Event()

    async def write_line(line: bytes) -> None:
        replies.append(line)
        answered.set()

    async def read_lines() -> AsyncIterator[bytes]:
        for line in (*ASKED, b"\n"):
            yield line
        await answered.wait()

    async with httpx.AsyncClient(base_url="http://127.0.0.1:9", transport=answer) as http:
        await McpBridge(http, "p", write_line).run(read_lines())
    return list(map(json.loads, replies))


def refuse(request: httpx.Request) -> httpx.Response:
    assert request.url.params["project"] == "p"
    return httpx.Response(401, json={"code": "unauthorized"})


def fail(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody listens", request=request)


@pytest.mark.parametrize(("answer", "said"), [(refuse, "--api-key"), (fail, "nobody listens")])
async def test_each_request_and_no_notification_gets_an_error_that_says_what_to_do(
    answer: httpx.MockTransport, said: str
) -> None:
    (reply,) = await bridge_lines(httpx.MockTransport(answer))  # type: ignore[arg-type]  # a handler, by the parameters
    error = reply["error"]
    assert isinstance(error, dict)
    assert (reply["id"], said in error["message"]) == ("a", True)
