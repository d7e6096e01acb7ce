"""A provider of chat models that follows a script: a real HTTP server on loopback, without latency.

It speaks OpenAI's chat completions (any path that ends with `/chat/completions`) and Anthropic's messages
(`/messages`), streamed and whole, records what it received, and misbehaves when its script says so:

    async with serve_upstream(lambda received: Answer("Hello")) as upstream:
        ... upstream.url ...

`serve_upstream_in_thread` serves it from a thread of its own, for benchmarks and for tests that are not asynchronous.
"""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus

from .scripted_answers import Received


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, received: Received, writer: asyncio.StreamWriter, closed: asyncio.Event) -> None:
        self.received = received
        self.closed = closed
        """Set when the client closes the connection."""
        self._writer = writer

    async def reply(self, document: object, status: int = 200, **headers: str) -> None:
        """Answer with a JSON document. In names of headers, `_` stands for `-`."""
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.begin(status, **{"content-type": "application/json", "content-length": str(len(content)), **named})
        self._writer.write(content)
        await self._writer.drain()

    async def begin(self, status: int = 200, **headers: str) -> None:
        """Send the head. Without a length, the reply is chunked."""
        named = {"content-type": "text/event-stream"} | {name.replace("_", "-"): text for name, text in headers.items()}
        if "content-length" not in named:
            named["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {text}" for name, text in named.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())

    async def send(self, content: bytes) -> None:
        """Send one chunk at once."""
        if content:
            self._writer.write(b"%x\r\n%b\r\n" % (len(content), content))
        await self._writer.drain()

    async def end(self) -> None:
        """End a chunked reply properly."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def cut(self) -> None:
        """Close the connection in the middle of the reply."""
        self._writer.close()


Behaviour = Callable[[Exchange], Awaitable[None]]
Script = Callable[[Received], Behaviour]


class ScriptedUpstream:
    """The server's address, what it received, and what it answers."""

    def __init__(self, script: Script) -> None:
        self.url = ""
        """Address without a path. OpenAI's clients want it with `/v1`."""
        self.script = script
        self.received: list[Received] = []
        self.most_at_once = 0
        self.connections = 0
        self._at_once = 0

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while not writer.is_closing():
                await self._serve_request(await _read_request(reader), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve_request(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.received.append(received)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        closed = asyncio.Event()
        watch = asyncio.ensure_future(_watch_end(reader, closed))
        try:
            await self.script(received)(Exchange(received, writer, closed))
        finally:
            self._at_once -= 1
            watch.cancel()
            await asyncio.wait({watch})


async def _watch_end(reader: asyncio.StreamReader, closed: asyncio.Event) -> None:
    """Set `closed` at the end of the connection, without reading what follows."""
    while not reader.at_eof():
        await reader._wait_for_data("_watch_end")  # type: ignore[attr-defined]
    closed.set()


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(first.split(" ")[1], headers, json.loads(content or b"{}"))


@asynccontextmanager
async def serve_upstream(script: Script) -> AsyncGenerator[ScriptedUpstream]:
    """Serve a script on a free port of loopback."""
    upstream = ScriptedUpstream(script)
    tasks: set[asyncio.Task[None]] = set()

    def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(upstream.serve_connection(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connect, "127.0.0.1", 0, limit=2**20)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # closed transports let go of their sockets


@contextmanager
def serve_upstream_in_thread(script: Script) -> Iterator[ScriptedUpstream]:
    """Serve a script from a thread with an event loop of its own."""
    started = threading.Event()
    served: list[ScriptedUpstream] = []
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        end = asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(end.set))
        loop = asyncio.get_running_loop()
        async with serve_upstream(script) as upstream:
            served.append(upstream)
            started.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(5)
        yield served[0]
    finally:
        for end in stop:
            end()
        thread.join(5)


def play_in_order(*behaviours: Behaviour) -> Script:
    """Return a script that answers the first request with the first behaviour, and so on; the last one stays."""
    left = list(behaviours)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def fail(status: int, message: str = "no", **headers: str) -> Behaviour:
    """Answer with an error in the format of the request, with headers such as `retry_after`."""

    async def behave(exchange: Exchange) -> None:
        error = {"type": "api_error", "message": message, **({} if exchange.received.is_anthropic else {"code": None})}
        await exchange.reply({"type": "error", "error": error}, status, **headers)

    return behave


def send_raw(*chunks: bytes, end: bool = True, **headers: str) -> Behaviour:
    """Send these bytes as the stream, each as a chunk of its own. Without `end` the connection is cut after them."""

    async def behave(exchange: Exchange) -> None:
        await exchange.begin(200, **headers)
        for chunk in chunks:
            await exchange.send(chunk)
            await asyncio.sleep(0)
        await (exchange.end() if end else exchange.cut())

    return behave


def hang_after(*chunks: bytes) -> Behaviour:
    """Send these bytes, if any, and then nothing until the client closes the connection."""

    async def behave(exchange: Exchange) -> None:
        if chunks:
            await exchange.begin()
        for chunk in chunks:
            await exchange.send(chunk)
        await exchange.closed.wait()

    return behave
