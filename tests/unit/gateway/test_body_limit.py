import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Message

from skillbus.gateway.adapters import body_limit
from skillbus.gateway.settings import GatewaySettings

from .fakes import World

SMALL = GatewaySettings(package_bytes=100_000, body_bytes=10_000, run_body_bytes=50_000)
HEAD = b'--b\r\nContent-Disposition: form-data; name="package"; filename="p.zip"\r\n\r\n'


class Uploader:
    """The other end of an exchange: sends chunks for as long as it is asked for them, and keeps what comes back."""

    def __init__(self, first: bytes, chunk: bytes) -> None:
        self.sent_bytes = 0
        self.sent_when_answered: int | None = None
        self.answer: list[Message] = []
        self._next = first
        self._chunk = chunk

    async def receive(self) -> Message:
        body, self._next = self._next, self._chunk
        self.sent_bytes += len(body)
        await asyncio.sleep(0)
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(self, message: Message) -> None:
        if self.sent_when_answered is None:
            self.sent_when_answered = self.sent_bytes
        self.answer.append(message)


def scope(path: str, headers: dict[str, str]) -> Message:
    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": "127.0.0.1", **headers}.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": raw,
        "scheme": "http",
        "http_version": "1.1",
    }


CHUNKED = {"Transfer-Encoding": "chunked", "Content-Type": "multipart/form-data; boundary=b"}


async def test_an_endless_upload_is_refused_while_it_streams_and_then_no_longer_read() -> None:
    uploader = Uploader(HEAD, bytes(64 * 1024))
    async with asyncio.timeout(5):
        await World(settings=SMALL).app()(scope("/api/skills", CHUNKED), uploader.receive, uploader.send)

    start = uploader.answer[0]
    assert start["status"] == 413
    assert (b"connection", b"close") in start["headers"]
    assert b'"payload_too_large"' in uploader.answer[1]["body"]
    assert uploader.sent_when_answered is not None
    assert uploader.sent_when_answered <= SMALL.package_bytes + 3 * 64 * 1024
    assert uploader.sent_bytes <= uploader.sent_when_answered + body_limit.LINGER_BYTES + 64 * 1024
    assert uploader.answer[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    uploader = Uploader(HEAD, bytes(64 * 1024))
    headers = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(10**12)}
    async with asyncio.timeout(5):
        await World(settings=SMALL).app()(scope("/api/skills", headers), uploader.receive, uploader.send)
    assert uploader.answer[0]["status"] == 413
    assert uploader.sent_when_answered == 0


async def test_a_client_that_falls_silent_after_its_refusal_does_not_hold_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_limit, "LINGER_S", 0.01)

    class Silent(Uploader):
        async def receive(self) -> Message:
            if self.answer:
                await asyncio.Event().wait()
            return await super().receive()

    uploader = Silent(HEAD, bytes(64 * 1024))
    async with asyncio.timeout(5):
        await World(settings=SMALL).app()(scope("/api/skills", CHUNKED), uploader.receive, uploader.send)
    assert uploader.answer[-1]["more_body"] is False


async def test_nothing_of_a_refused_upload_is_stored_or_asked_about() -> None:
    world = World(settings=SMALL)
    async with world.client() as client:
        answer = await client.post("/api/skills", files={"package": ("p.zip", bytes(100_001))})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert not world.packages.puts
    assert not world.caller.asked


async def chunks(count: int, size: int) -> AsyncGenerator[bytes]:
    for _ in range(count):
        yield b'"' * size


@pytest.mark.parametrize(
    ("method", "path", "over"),
    [
        ("POST", "/api/tools/search", 10_001),
        ("PATCH", "/api/skills/x", 10_001),
        ("POST", "/api/skills/x/run", 50_001),
    ],
)
async def test_json_bodies_have_limits_whether_or_not_their_length_is_declared(
    method: str, path: str, over: int
) -> None:
    headers = {"Content-Type": "application/json"}
    async with World(settings=SMALL).client() as client:
        declared = await client.request(method, path, content=b" " * over, headers=headers)
        streamed = await client.request(method, path, content=chunks(over, 1), headers=headers)
    for answer in (declared, streamed):
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_a_body_at_its_limit_is_read() -> None:
    body = b'{"query": ""}'.ljust(SMALL.body_bytes)
    async with World(settings=SMALL).client() as client:
        answer = await client.post("/api/tools/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


async def test_an_answer_after_the_whole_body_keeps_the_connection() -> None:
    async with World().client() as client:
        answers = [
            await client.get("/healthz"),
            await client.post("/api/tools/search", json={"query": ""}),
        ]
    assert not any("Connection" in answer.headers for answer in answers)


def response_is_early(answer: httpx.Response) -> bool:
    return answer.headers.get("Connection") == "close"


async def test_a_refusal_before_the_body_is_read_closes_the_connection() -> None:
    async with World().client() as client:
        answer = await client.post("/api/nothing", content=b"x" * 100)
    assert answer.status_code == 404
    assert response_is_early(answer)
