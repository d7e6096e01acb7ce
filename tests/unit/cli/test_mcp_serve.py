"""`skillbus mcp serve`: what its client learns when there is no server, or no key."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from skillbus.cli.tools.mcp_bridge import McpBridge
from skillbus.cli.tools.mcp_serve import _read_lines

ASKED = [
    b'{"jsonrpc": "2.0", "id": "a", "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "method": "notifications/x"}\n',
]


async def bridge_lines(answer: httpx.MockTransport, asked: Sequence[bytes] = ASKED) -> list[dict[str, object]]:
    """The replies. Each line is sent when the request before it was answered, and the last one is awaited."""
    replies, answered = list[bytes](), asyncio.Event()

    async def write_line(line: bytes) -> None:
        replies.append(line)
        answered.set()

    async def read_lines() -> AsyncIterator[bytes]:
        for line in (*asked, b"\n"):
            answered.clear()
            yield line
            if b'"id"' in line:
                async with asyncio.timeout(5):
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


GREETING = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}'


async def test_a_refused_initialize_is_sent_once_and_answered_with_the_reason() -> None:
    requests = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(404, json={"detail": "There is nothing at this path."})

    (reply,) = await bridge_lines(httpx.MockTransport(answer), [GREETING])
    assert reply["error"] == {"code": -32603, "message": "skillbus answers HTTP 404: There is nothing at this path."}
    assert len(requests) == 1


class ForgetfulServer:
    """Forgets its session before each `tools/list`, and refuses the second and third of those that are opened."""

    def __init__(self) -> None:
        self.opened = 0
        self.session = ""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(200)
        message = json.loads(request.content)
        if message["method"] == "initialize":
            self.opened += 1
            if self.opened in {2, 3}:
                return httpx.Response(429, json={"detail": "32 sessions are open"})
            self.session = f"s{self.opened}"
            reply = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25"}}
            return httpx.Response(200, json=reply, headers={"mcp-session-id": self.session})
        if request.headers.get("mcp-session-id") != self.session or self.opened < 4:
            return httpx.Response(404)
        if "id" not in message:
            return httpx.Response(202)
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": {}})


async def test_a_lost_session_is_opened_again_by_the_next_request_when_the_server_refused_it_before() -> None:
    server = ForgetfulServer()
    listing = [b'{"jsonrpc": "2.0", "id": %d, "method": "tools/list"}' % number for number in (2, 3, 4)]
    replies = await bridge_lines(httpx.MockTransport(server), [GREETING, *listing])
    assert [reply["id"] for reply in replies if "result" in reply] == [1, 4]
    refused = [reply["error"] for reply in replies if "error" in reply]
    assert refused == [{"code": -32603, "message": "skillbus answers HTTP 429: 32 sessions are open"}] * 2


async def test_sigterm_ends_the_lines_of_a_client_so_that_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with os.fdopen(writing, "wb", buffering=0) as client:
            lines = _read_lines()
            client.write(b"{}\n\n")
            assert [await anext(lines), await anext(lines)] == [b"{}\n", b"\n"]
            long = b"x" * 200_000 + b"\n"
            writing_long = asyncio.create_task(asyncio.to_thread(client.write, long))
            assert (await anext(lines), await writing_long) == (long, len(long))
            os.kill(os.getpid(), signal.SIGTERM)
            assert await anext(lines, None) is None
        for reader in (thread for thread in threading.enumerate() if thread.name == "stdin"):
            await asyncio.to_thread(reader.join, 5)  # before the file that it reads is closed
