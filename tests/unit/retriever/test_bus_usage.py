"""The end of publishing usage, when NATS answers too late."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from skillbus.contracts.learner.usage import AnsweredRequest
from skillbus.retriever.adapters import bus_usage
from skillbus.retriever.adapters.bus_usage import BusUsage


class LateStream:
    """Answers in the moment in which its caller is cancelled. Before Python 3.12 nats-py then returns the answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def publish(self, *_: object, **__: object) -> None:
        self.asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return


async def test_it_ends_also_if_a_wait_for_nats_swallows_the_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_usage, "_FLUSH_WITHIN_S", 0.01)
    stream = LateStream()
    usage = BusUsage(SimpleNamespace(jetstream=stream), size=10, gather_s=0)  # type: ignore[arg-type]  # all it uses

    async def use() -> None:
        async with usage.running():
            usage.note("default", AnsweredRequest(request_id="1", query="song", at=datetime(2026, 1, 1, tzinfo=UTC)))
            await stream.asked.wait()

    with capture_logs() as logs:
        ended, _ = await asyncio.wait({asyncio.create_task(use())}, timeout=5)
    assert [task.exception() for task in ended] == [None]
    assert [entry["event"] for entry in logs] == ["knowledge_uses_lost"]
