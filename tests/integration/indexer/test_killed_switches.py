"""An indexer that is killed in any phase of a switch goes on where it was when it is started again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from skillbus.common.bus.connection import Bus, confirm_subscriptions
from skillbus.common.testing import eventually
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import IndexState, SwitchPhase
from skillbus.contracts.resources import SWITCHES
from skillbus.indexer.domain.index.switch_record import SwitchRecord
from skillbus.standalone.nats_server import NatsServer
from skillbus.vectors import open_vector_store

from ...programs import Program, open_program
from .conftest import Package, Running
from .fake_embedder import FakeEmbedder
from .switch_steps import assert_live_is_exactly, install_many, state_of

_PROGRAM = Path(__file__).with_name("indexer_process.py")
_START_S = 60.0  # an interpreter and its imports, on a machine that runs several test suites


@asynccontextmanager
async def an_indexer(server: NatsServer, bus: Bus, directory: Path) -> AsyncGenerator[Program]:
    """A process that answers; it is killed when the context is left."""
    arguments = (str(_PROGRAM), server.address.url, server.address.token, str(directory))
    async with open_program(*arguments, output=directory / "indexer.log") as process:
        await eventually(lambda: _state_or_none(bus), lambda state: state and state.live, wait_s=_START_S)
        yield process


async def _state_or_none(bus: Bus) -> IndexState | None:
    try:
        return await state_of(bus)
    except RequestError:
        return None


@asynccontextmanager
async def killed_in(bus: Bus, process: Program, phase: SwitchPhase) -> AsyncGenerator[asyncio.Event]:
    """The process is killed as soon as the record says so."""
    killed = asyncio.Event()

    async def on_record(message: Msg) -> None:
        if SwitchRecord.model_validate_json(message.data).switch.phase is phase and not killed.is_set():
            process.kill()
            killed.set()

    subscription = await bus.client.subscribe(f"$KV.{SWITCHES.name}.>", cb=on_record)
    await confirm_subscriptions(bus.client)
    try:
        yield killed
    finally:
        await subscription.unsubscribe()


@pytest.mark.parametrize(
    "phase", [SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING, SwitchPhase.KEPT]
)
async def test_a_switch_ends_the_same_after_the_indexer_was_killed_in_it(
    bus: Bus, nats_server: NatsServer, embedder: FakeEmbedder, package: Package, tmp_path: Path, phase: SwitchPhase
) -> None:
    async with an_indexer(nats_server, bus, tmp_path) as process:
        running = Running(bus, None, tmp_path / "data")  # type: ignore[arg-type]  # the store is the process's own
        await install_many(running, package, 30)
        async with killed_in(bus, process, phase) as killed:
            await embedder.make_default(bus, "bbbb")
            async with asyncio.timeout(5):
                await killed.wait()
        await process.wait()
    async with an_indexer(nats_server, bus, tmp_path):
        await eventually(
            lambda: _state_or_none(bus),
            lambda state: state and state.switch and state.switch.phase is SwitchPhase.KEPT,
            wait_s=10,
        )
        await running.install(package("late", "Installed after the crash."))
    async with open_vector_store(None, tmp_path / "vectors") as store:
        await assert_live_is_exactly(bus, store, "bbbb")
