"""Preparation of skills that the indexer announces, when the service ends meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

from nats.aio.msg import Msg
from structlog.testing import capture_logs

from skillbus.common.bus.codec import encode
from skillbus.contracts.indexer.skills import SkillChanged
from skillbus.sandbox.adapters.bus.skill_events import prepare_installed_skills


class FakeClient:
    """Delivers what a test hears for it."""

    def __init__(self) -> None:
        self.hear: list[Callable[[Msg], Awaitable[None]]] = []

    async def subscribe(self, _: str, cb: Callable[[Msg], Awaitable[None]]) -> "FakeClient":
        self.hear.append(cb)
        return self

    async def unsubscribe(self) -> None:
        self.hear.clear()


async def test_it_ends_also_if_an_error_takes_the_place_of_the_cancellation() -> None:
    client, begun = FakeClient(), asyncio.Event()

    async def prepare(project: str, name: str) -> tuple[str, ...]:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("a folder was not removed")

    async def serve() -> None:
        bus = SimpleNamespace(client=client)
        async with prepare_installed_skills(bus, prepare):  # type: ignore[arg-type]  # all it uses
            body = encode(SkillChanged(project="default", name="one", digest="d"))
            await client.hear[0](SimpleNamespace(data=body, subject="it"))  # type: ignore[arg-type]  # as above
            await begun.wait()

    with capture_logs() as logs:
        ended, _ = await asyncio.wait({asyncio.create_task(serve())}, timeout=5)
    assert [task.exception() for task in ended] == [None]
    assert [entry["event"] for entry in logs] == ["skill_preparation_failed"]
    assert client.hear == []
