"""Runs that are followed while they print, and ended by others than those who asked for them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import RUN_HISTORY
from skillbus.contracts.sandbox.run_history import (
    CANCEL_RUN,
    FEED_BYTES,
    GET_RUN,
    RUN_PRINTED,
    OutputStream,
    RunEvent,
    RunEventKind,
    RunSelector,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS, RUN_SKILL, RunSkill, RunStatus
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox

from .conftest import Catalogue, OpenSandbox, Sandbox
from .fakes import HeldIsolation

RUN = "0123456789abcdef" * 2
_TWICE = """
import sys, time
print("first", flush=True)
print("aside", file=sys.stderr, flush=True)
sys.stdin.readline()
print("second")
"""


async def cancel(bus: Bus, run_id: str, project: str = "default") -> bool:
    return (await bus.caller.call(CANCEL_RUN, RunSelector(run_id=run_id, project=project))).ending


async def told(bus: Bus, run_id: str, into: list[RunEvent]) -> None:
    """Collect what is told of a run until its end."""
    async with subscribe_to_feed(bus.client, RUN_PRINTED, run_id) as events:
        async for event in events:
            into.append(event)
            if event.kind is RunEventKind.ENDED:
                return


async def test_what_a_run_prints_is_told_before_it_ends(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("slow", "import time\nprint('first', flush=True)\ntime.sleep(30)\n")
    async with subscribe_to_feed(sandbox.bus.client, RUN_PRINTED, RUN) as events, asyncio.timeout(5):
        running = asyncio.create_task(sandbox.run("slow", run_id=RUN, stream=True))
        begun, printed = await anext(events), await anext(events)
        assert (begun.kind, begun.number) == (RunEventKind.BEGUN, 0)
        assert (printed.data, printed.stream, printed.number) == (b"first\n", OutputStream.STDOUT, 1)
        assert not running.done()
        assert await cancel(sandbox.bus, RUN)
        ran, last = await running, await anext(events)
    assert (ran.run_id, ran.status, ran.stdout.inline) == (RUN, RunStatus.CANCELLED, b"first\n")
    assert (last.kind, last.state, last.number) == (RunEventKind.ENDED, RunState.CANCELLED, 2)


async def test_everything_is_told_in_order_and_in_small_messages(sandbox: Sandbox) -> None:
    count = 300_000
    await sandbox.catalogue.put("say", f"import sys\nfor n in range({count} // 10): sys.stdout.write(f'{{n:09}}\\n')\n")
    events = list[RunEvent]()
    listening = asyncio.create_task(told(sandbox.bus, RUN, events))
    await asyncio.sleep(0)
    ran = await sandbox.run("say", run_id=RUN, stream=True)
    await asyncio.wait_for(listening, 5)
    assert [event.number for event in events] == list(range(len(events)))
    assert max(len(event.data) for event in events) <= FEED_BYTES
    assert b"".join(event.data for event in events) == await sandbox.bytes_of(ran.stdout)
    assert len(await sandbox.bytes_of(ran.stdout)) == count


async def test_no_more_is_told_than_the_limit_of_output(open_one: OpenSandbox, sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("flood", "import sys\nwhile True: sys.stdout.write('x' * 65536)\n")
    events = list[RunEvent]()
    listening = asyncio.create_task(told(sandbox.bus, RUN, events))
    await asyncio.sleep(0)
    ran = await sandbox.run("flood", run_id=RUN, stream=True)
    await asyncio.wait_for(listening, 5)
    assert (ran.status, events[-1].state) == (RunStatus.OUTPUT, RunState.OUTPUT)
    assert sum(len(event.data) for event in events) == 10 * 1024 * 1024


async def test_a_script_that_prints_byte_by_byte_makes_few_messages(sandbox: Sandbox) -> None:
    script = "import os\nfor n in range(5000): os.write(1 + n % 2, b'x')\n"
    await sandbox.catalogue.put("drip", script)
    events = list[RunEvent]()
    listening = asyncio.create_task(told(sandbox.bus, RUN, events))
    await asyncio.sleep(0)
    await sandbox.run("drip", run_id=RUN, stream=True)
    await asyncio.wait_for(listening, 5)
    assert sum(len(event.data) for event in events) == 5000
    assert len(events) < 500


async def test_a_run_that_nobody_wants_to_follow_tells_nothing(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    held.go_on.set()
    async with open_one(held) as sandbox:
        await sandbox.catalogue.put("say", "said")
        heard = await sandbox.bus.client.subscribe("skillbus.feed.>")
        await sandbox.run("say", run_id=RUN)
        await confirm_subscriptions(sandbox.bus.client)  # what was published before is delivered too
    assert heard.pending_msgs == 0


async def test_an_id_that_is_in_use_or_known_is_refused(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        first = asyncio.create_task(sandbox.run("say", run_id=RUN))
        await held.begun.acquire()
        codes = [await refused(sandbox, project) for project in ("default", "other")]
        held.go_on.set()
        await first
        codes += [await refused(sandbox, project) for project in ("default", "other")]
    assert codes == [ErrorCode.CONFLICT] * 4
    assert len(held.specs) == 1


async def test_an_id_that_is_said_to_be_new_overwrites_no_record(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    held.go_on.set()
    async with open_one(held) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        await sandbox.run("say", run_id=RUN, run_id_is_new=True)
        wanted = RunSelector(run_id=RUN)
        before = await sandbox.bus.caller.call(GET_RUN, wanted)
        with pytest.raises(RequestError) as caught:
            await sandbox.run("say", run_id=RUN, run_id_is_new=True, project="other")
        assert await sandbox.bus.caller.call(GET_RUN, wanted) == before
    assert caught.value.code is ErrorCode.CONFLICT


async def test_only_a_run_whose_id_may_be_known_waits_for_the_record_of_its_start(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    held.go_on.set()
    async with open_one(held) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        await sandbox.bus.jetstream.delete_stream(RUN_HISTORY.name)
        assert (await sandbox.run("say", run_id=RUN, run_id_is_new=True)).status is RunStatus.OK
        assert (await sandbox.run("say")).status is RunStatus.OK
        with pytest.raises(RequestError) as caught:
            await sandbox.run("say", run_id="e" * 32)
    assert caught.value.retryable
    assert len(held.specs) == 2


async def refused(sandbox: Sandbox, project: str) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        await sandbox.run("say", run_id=RUN, project=project)
    assert not caught.value.retryable
    return caught.value.code


async def test_a_run_that_waits_can_be_cancelled(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held, slots=1, waiting=2) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        first = asyncio.create_task(sandbox.run("say"))
        await held.begun.acquire()
        second = asyncio.create_task(sandbox.run("say", run_id=RUN))
        while (limits := await sandbox.bus.caller.call(GET_LIMITS, Empty())).waiting_now == 0:
            pass
        assert (limits.running_now, limits.waiting_now, limits.waiting) == (1, 1, 2)
        assert await cancel(sandbox.bus, RUN)
        assert (await second).status is RunStatus.CANCELLED
        held.go_on.set()
        await first
    assert len(held.specs) == 1


async def test_a_run_is_not_found_by_another_project_or_another_id(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        running = asyncio.create_task(sandbox.run("say", run_id=RUN))
        await held.begun.acquire()
        for run_id, project in ((RUN, "other"), ("f" * 32, "default")):
            with pytest.raises(RequestError) as caught:
                await cancel(sandbox.bus, run_id, project)
            assert caught.value.code is ErrorCode.NOT_FOUND
        held.go_on.set()
        assert (await running).status is RunStatus.OK
        assert not await cancel(sandbox.bus, RUN)


@asynccontextmanager
async def replica(settings: BusSettings, folder: Path, isolation: HeldIsolation) -> AsyncGenerator[Bus]:
    async with (
        open_bus(settings, "replica", CollectorRegistry()) as bus,
        open_sandbox(bus, SandboxSettings(data=folder, slots=16), isolation),
    ):
        yield bus


async def test_a_run_is_cancelled_whichever_replica_is_asked(
    bus: Bus, catalogue: Catalogue, bus_settings: BusSettings, tmp_path: Path
) -> None:
    await catalogue.put("say", "said")
    one, other = HeldIsolation(), HeldIsolation()
    ids = [f"{number:032x}" for number in range(12)]
    async with (
        replica(bus_settings, tmp_path / "one", one),
        replica(bus_settings, tmp_path / "other", other),
        asyncio.timeout(5),
    ):
        running = [
            asyncio.create_task(bus.caller.call(RUN_SKILL, RunSkill(name="say", run_id=run_id), timeout_s=20))
            for run_id in ids
        ]
        await eventually(begun_by(one, other), lambda count: count == len(ids))
        endings = [await cancel(bus, run_id) for run_id in ids]
        statuses = [(await ran).status for ran in running]
    assert (endings, statuses) == ([True] * len(ids), [RunStatus.CANCELLED] * len(ids))
    assert one.specs
    assert other.specs


def begun_by(*isolations: HeldIsolation) -> Callable[[], Awaitable[int]]:
    async def read() -> int:
        return sum(len(isolation.specs) for isolation in isolations)

    return read
