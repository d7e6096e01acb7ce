"""What is remembered of runs."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.resources import RUN_HISTORY
from skillbus.contracts.sandbox.run_history import (
    GET_RUN,
    LIST_RUNS,
    ListRuns,
    RunFile,
    RunRecord,
    RunSelector,
    RunsListed,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import RunLimits
from skillbus.sandbox.adapters.bus.history import StreamHistory

from .conftest import OpenSandbox, Sandbox
from .fakes import HeldIsolation, NoIsolation

SECRET = "do-not-keep-me"
LIMITS = RunLimits(
    wall_s=1, cpu_s=1, memory_bytes=1, processes=1, output_bytes=1, artifacts=1, artifacts_bytes=1, work_bytes=1
)
_WORK = """
import os, pathlib, sys, time
until = time.process_time() + 0.05
while time.process_time() < until: pass
pathlib.Path(os.environ["SKILLBUS_OUT"], "report.txt").write_bytes(bytes(1000))
print(sys.argv)
"""


async def listed(bus: Bus, **wanted: object) -> RunsListed:
    return await bus.caller.call(LIST_RUNS, ListRuns.model_validate(wanted))


async def remembered(bus: Bus, run_id: str, project: str = "default") -> RunRecord:
    return await bus.caller.call(GET_RUN, RunSelector(run_id=run_id, project=project))


def a_run(number: int, **changed: object) -> RunRecord:
    now = datetime.now(UTC)
    usual = {
        "run_id": f"{number:032x}",
        "skill": "say",
        "content_digest": "0" * 64,
        "action": "run",
        "state": RunState.OK,
        "began_at": now,
        "ends_by": now + timedelta(seconds=60),
        "limits": LIMITS,
    }
    return RunRecord.model_validate(usual | changed)


async def test_a_run_is_remembered_with_its_limits_and_what_it_used(sandbox: Sandbox) -> None:
    skill = await sandbox.catalogue.put("work", _WORK)
    modest = skill.model_copy(update={"limits": SkillLimits(wall_s=9, memory_mib=256, processes=4000)})
    sandbox.catalogue.skills["work"] = modest
    ran = await sandbox.run("work", args={"token": SECRET})
    record = await remembered(sandbox.bus, ran.run_id)
    assert (record.skill, record.action, record.state, record.exit_code) == ("work", "run", RunState.OK, 0)
    assert record.content_digest == skill.content_digest
    assert (record.limits.wall_s, record.limits.memory_bytes, record.limits.processes) == (9, 256 * 2**20, 64)
    assert (ran.limits, ran.used, ran.isolation) == (record.limits, record.used, record.isolation)
    assert record.used is not None
    assert record.used.cpu_ms >= 50
    assert record.used.wall_ms >= record.used.cpu_ms / 2
    assert (record.used.artifacts, record.used.artifacts_bytes) == (1, 1000)
    assert record.used.output_bytes == ran.stdout.size_bytes
    assert record.artifacts == (RunFile(name="report.txt", size_bytes=1000),)
    assert SECRET not in record.model_dump_json()


async def test_the_memory_limit_of_a_skill_ends_its_runs(sandbox: Sandbox) -> None:
    skill = await sandbox.catalogue.put("hoard", "hoard = bytearray(200 * 2**20)\nprint(len(hoard))\n")
    assert (await sandbox.run("hoard")).exit_code == 0
    modest = skill.model_copy(update={"limits": SkillLimits(memory_mib=128)})
    sandbox.catalogue.skills["hoard"] = modest
    assert (await sandbox.run("hoard")).exit_code != 0


async def test_a_skill_can_raise_its_limits_as_far_as_the_operator_allows(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    held.go_on.set()
    async with open_one(held, wall_s=10, max_wall_s=20, max_work_mib=128) as sandbox:
        skill = await sandbox.catalogue.put("say", "said")
        greedy = SkillLimits(wall_s=3000, work_mib=100, processes=1000, output_mib=1)
        sandbox.catalogue.skills["say"] = skill.model_copy(update={"limits": greedy})
        limits = (await sandbox.run("say", timeout_s=60)).limits
    assert limits is not None
    assert (limits.wall_s, limits.work_bytes, limits.processes) == (20, 100 * 2**20, 64)
    assert (held.specs[0].limits.work_bytes, held.specs[0].limits.output_bytes) == (100 * 2**20, 2**20)


async def test_a_run_that_goes_on_is_in_the_list(open_one: OpenSandbox) -> None:
    held = HeldIsolation()
    async with open_one(held) as sandbox, asyncio.timeout(5):
        await sandbox.catalogue.put("say", "said")
        running = asyncio.create_task(sandbox.run("say"))
        await held.begun.acquire()
        (going_on,) = (await listed(sandbox.bus, state="running")).runs
        assert (going_on.used, going_on.isolation) == (None, None)
        held.go_on.set()
        run_id = (await running).run_id
        assert (await listed(sandbox.bus, state="running")).runs == ()
    assert going_on.run_id == run_id


async def test_a_run_that_could_not_be_begun_is_remembered_as_that(open_one: OpenSandbox) -> None:
    async with open_one(NoIsolation()) as sandbox:
        await sandbox.catalogue.put("say", "said")
        with pytest.raises(RequestError):
            await sandbox.run("say")
        with pytest.raises(RequestError):
            await sandbox.run("nobody")
        (record,) = (await listed(sandbox.bus)).runs
    assert (record.state, record.detail) == (RunState.NOT_RUN, ErrorCode.SANDBOX_UNAVAILABLE)


async def test_before_the_first_run_the_list_is_empty(bus: Bus) -> None:
    portion = await StreamHistory(bus).read_portion(None)
    assert (portion.records, portion.before) == ([], None)


async def test_runs_are_listed_newest_first_page_by_page(open_one: OpenSandbox, bus: Bus) -> None:
    history = StreamHistory(bus)
    for number in range(25):
        await history.record_end(a_run(number, skill="even" if number % 2 == 0 else "odd"))
    await history.record_end(a_run(99, project="other"))
    async with open_one(HeldIsolation()):
        seen, after = list[int](), None
        while True:
            page = await listed(bus, limit=10, **({"after": after} if after else {}))
            seen += [int(record.run_id, 16) for record in page.runs]
            after = page.next
            if after is None:
                break
        odd = (await listed(bus, skill="odd")).runs
        others = (await listed(bus, project="other")).runs
    assert seen == list(reversed(range(25)))
    assert [record.skill for record in odd] == ["odd"] * 12
    assert [int(record.run_id, 16) for record in others] == [99]


async def test_a_page_of_a_long_history_says_that_there_is_more_though_nothing_fits_yet(
    open_one: OpenSandbox, bus: Bus
) -> None:
    history = StreamHistory(bus)
    await history.record_start(a_run(0, skill="rare"))
    for begin in range(1, 6000, 500):
        await asyncio.gather(*(history.record_start(a_run(number)) for number in range(begin, min(begin + 500, 6000))))
    await history.record_end(a_run(6000))
    async with open_one(HeldIsolation()):
        first = await listed(bus, skill="rare")
        second = await listed(bus, skill="rare", after=first.next)
    assert (first.runs, first.next is not None) == ((), True)
    assert ([record.run_id for record in second.runs], second.next) == (["0" * 32], None)


async def test_a_run_whose_sandbox_is_gone_is_lost_once_its_time_is_over(open_one: OpenSandbox, bus: Bus) -> None:
    history = StreamHistory(bus)
    past = datetime.now(UTC) - timedelta(minutes=5)
    await history.record_start(a_run(1, state=RunState.RUNNING, began_at=past, ends_by=past))
    async with open_one(HeldIsolation()):
        assert (await remembered(bus, a_run(1).run_id)).state is RunState.LOST
        assert [record.state for record in (await listed(bus, state="lost")).runs] == [RunState.LOST]


async def test_another_projects_run_is_not_found(open_one: OpenSandbox, bus: Bus) -> None:
    await StreamHistory(bus).record_end(a_run(1, project="other"))
    async with open_one(HeldIsolation()):
        assert (await remembered(bus, a_run(1).run_id, "other")).project == "other"
        with pytest.raises(RequestError) as caught:
            await remembered(bus, a_run(1).run_id)
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_the_history_is_bounded_by_a_day_a_number_and_a_size(bus: Bus) -> None:
    config = (await bus.jetstream.stream_info(RUN_HISTORY.name)).config
    assert (config.max_age, config.max_msgs, config.max_msgs_per_subject) == (86_400, 10_000, 1)
    assert config.max_bytes == 64 * 2**20
