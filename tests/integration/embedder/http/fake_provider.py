"""A provider on a real socket that speaks OpenAI's format and Ollama's, and misbehaves when a test says so."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

WAIT_S: Final = 5.0
DIM: Final = 8
TRICKLE_S: Final = 0.05

Headers = list[tuple[bytes, bytes]]


def vector_of(text: str, dim: int = DIM) -> list[float]:
    """Not of length 1: providers need not make them so."""
    raw: list[float] = (np.random.default_rng(list(text.encode())).normal(size=dim) * 3).tolist()
    return raw


def unit(text: str, dim: int = DIM) -> list[float]:
    raw = np.array(vector_of(text, dim))
    direction: list[float] = (raw / np.linalg.norm(raw)).tolist()
    return direction


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, object]

    @property
    def texts(self) -> list[str]:
        given = self.body["input"]
        return [given] if isinstance(given, str) else [str(text) for text in given] if isinstance(given, list) else []


@dataclass(frozen=True)
class Reply:
    """What is sent instead of vectors."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    async def __call__(self, seen: Seen, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await begin(send, self.status, self.headers)
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


Behaviour = Callable[[Seen, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]


async def begin(send: ASGISendCallable, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw, "trailers": False})


def as_json(document: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(document).encode(), {"content-type": "application/json", **named})


def openai_reply(vectors: Sequence[Sequence[float]], indices: Sequence[int] | None = None) -> Reply:
    places = range(len(vectors)) if indices is None else indices
    data = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in zip(places, vectors, strict=True)
    ]
    return as_json({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 11, "total_tokens": 11}})


def ollama_reply(vectors: Sequence[Sequence[float]]) -> Reply:
    return as_json({"model": "m", "embeddings": [list(vector) for vector in vectors], "prompt_eval_count": 7})


def openai_error(status: int, message: str, code: str | None = None, param: str | None = None, **headers: str) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return as_json({"error": error}, status, **headers)


async def break_off(_: Seen, __: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """A body that ends before it is complete: uvicorn then closes the connection."""
    await begin(send, 200, {"content-type": "application/json", "content-length": "1000"})
    await send({"type": "http.response.body", "body": b'{"data": [', "more_body": True})


async def trickle(_: Seen, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """A space now and then, each in time for any limit of one read, until the client goes away."""
    await begin(send, 200, {"content-type": "application/json"})
    gone = asyncio.ensure_future(receive())
    while not (await asyncio.wait({gone}, timeout=TRICKLE_S))[0]:
        await send({"type": "http.response.body", "body": b" ", "more_body": True})


class FakeProvider:
    """Plays `script`, one behaviour a request, and then answers with vectors."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.script: list[Behaviour] = []
        self.always: Behaviour | None = None
        """Instead of vectors, once the script is played."""
        self.refused: frozenset[str] = frozenset()
        """Texts for which a whole batch is answered with 400."""
        self.latency_s = 0.0
        self.dim = DIM
        self.at_once = 0
        self.most_at_once = 0
        self._arrived = asyncio.Semaphore(0)
        self._gate = asyncio.Event()
        self._gate.set()

    def hold(self) -> None:
        """Lets requests wait until `release`."""
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    async def arrival(self) -> None:
        """Waits for the next request that was not waited for yet."""
        await asyncio.wait_for(self._arrived.acquire(), WAIT_S)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        seen = Seen(scope["path"], headers, json.loads(await _body(receive)))
        self.seen.append(seen)
        self._arrived.release()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.wait_for(self._gate.wait(), WAIT_S)
            behaviour = self.script.pop(0) if self.script else self.always or self._vectors
            await behaviour(seen, receive, send)
        finally:
            self.at_once -= 1

    async def _vectors(self, seen: Seen, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await asyncio.sleep(self.latency_s)  # the network and the computation that it stands for
        await self._reply(seen)(seen, receive, send)

    def _reply(self, seen: Seen) -> Reply:
        if self.refused.intersection(seen.texts):
            return openai_error(400, "'$.input' is invalid", param="input")
        vectors = [vector_of(text, self.dim) for text in seen.texts]
        if seen.path.endswith("/api/embed"):
            return ollama_reply(vectors)
        backwards = list(reversed(range(len(vectors))))
        return openai_reply([vectors[index] for index in backwards], backwards)


async def _body(receive: ASGIReceiveCallable) -> bytes:
    content = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return content
        content += message.get("body", b"")
        if not message.get("more_body", False):
            return content
