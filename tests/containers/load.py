"""Searches that go on while something else happens."""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from .compose import Stack


@dataclass(frozen=True, slots=True)
class Answer:
    """How one search was answered, and when it was asked: a time of `time.monotonic`."""

    asked_at: float
    seconds: float
    status: int
    media_type: str
    code: str | None
    found: str | None


def search(stack: Stack, query: str) -> Answer:
    """One search, on a connection of its own."""
    with stack.client() as client:
        began = time.monotonic()
        reply = client.post("/api/tools/search", json={"query": query, "limit": 1})
        body = reply.json()
        results = body.get("results") or [{}]
        media_type = reply.headers["content-type"].partition(";")[0]
        return Answer(
            began, time.monotonic() - began, reply.status_code, media_type, body.get("code"), results[0].get("name")
        )


@contextmanager
def searching(stack: Stack, query: str, threads: int = 4, every_s: float = 0.02) -> Generator[list[Answer]]:
    """Search from several threads while the context is open. The answers are complete when it is left."""
    stop = Event()
    answers: list[Answer] = []

    def work() -> None:
        while not stop.is_set():
            answers.append(search(stack, query))
            stop.wait(every_s)

    with ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(work) for _ in range(threads)]
        try:
            yield answers
        finally:
            stop.set()
    for thread in working:
        thread.result()
