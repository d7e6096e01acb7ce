"""Which run comes of a request, and when none does."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, Skill, SkillLimits
from skillbus.contracts.sandbox.skill_runs import RunSkill, RunStatus
from skillbus.sandbox.domain.egress_policy import HostPort
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run.limits import MIB, Limits
from skillbus.sandbox.domain.run.runner import SkillRunner
from skillbus.sandbox.domain.run.spec import IsolationLevel, RunControl, RunOutcome, RunSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def skill(digest: str, script: str = "main.py") -> Skill:
    point = EntryPoint(action="main", script=script, runtime=Runtime.PYTHON, args_mode=ArgsMode.ARGV)
    return Skill(
        name="a",
        description="A.",
        digest=digest,
        content_digest=digest,
        size_bytes=1,
        entry_points=(point,),
        default_action="main",
        installed_at=NOW,
        updated_at=NOW,
        indexed=True,
    )


class FakeSkills:
    """Skills as they are looked up, one after the other; those that were updated since have no package."""

    def __init__(self, *found: Skill, gone: frozenset[str] = frozenset()) -> None:
        self._found = list(found)
        self._gone = gone

    async def get_skill(self, project: str, name: str) -> Skill:
        return self._found.pop(0) if len(self._found) > 1 else self._found[0]

    @asynccontextmanager
    async def unpack_skill(self, skill: Skill) -> AsyncGenerator[Path]:
        if skill.content_digest in self._gone:
            raise RequestError(ErrorCode.NOT_FOUND, "It is not there.")
        yield Path(skill.content_digest)


class FakeIsolation:
    """Runs nothing until it is let go."""

    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.began, self.let_go = asyncio.Event(), asyncio.Event()

    async def probe(self) -> IsolationReport:
        return IsolationReport(IsolationLevel.FULL, "fake")

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        self.specs.append(spec)
        self.began.set()
        await self.let_go.wait()
        return RunOutcome(RunStatus.OK, 0, b"", b"", (), 1.0, 1.0, truncated=False, level=IsolationLevel.FULL)


async def no_files() -> Mapping[str, bytes]:
    return {}


async def ran(
    runner: SkillRunner, at_most_s: float = 10, control: RunControl | None = None, caller: str = ""
) -> RunOutcome:
    request, until = RunSkill(name="a", project=caller or "default"), asyncio.get_running_loop().time() + at_most_s
    plan = await runner.plan_run(request, until)
    return await runner.run(request, plan, no_files, until, control, caller=caller)


def waiting_of(runner: SkillRunner) -> Callable[[], Awaitable[int]]:
    async def read() -> int:
        return runner.waiting

    return read


async def test_a_skill_that_was_updated_since_it_was_looked_up_runs_as_it_is_now() -> None:
    isolation = FakeIsolation()
    isolation.let_go.set()
    skills = FakeSkills(skill("old"), skill("new", "other.py"), gone=frozenset({"old"}))
    await ran(SkillRunner(skills, isolation, Limits(), 1))
    assert [(spec.skill_root, spec.script) for spec in isolation.specs] == [(Path("new"), "other.py")]


async def test_a_package_that_stays_away_is_an_error() -> None:
    runner = SkillRunner(FakeSkills(skill("old"), gone=frozenset({"old"})), FakeIsolation(), Limits(), 1)
    with pytest.raises(RequestError) as caught:
        await ran(runner)
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_a_run_whose_caller_left_while_it_waited_is_not_begun_and_frees_its_place() -> None:
    isolation = FakeIsolation()
    runner = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1)
    first = asyncio.create_task(ran(runner))
    await isolation.began.wait()
    with pytest.raises(RequestError) as caught:
        await ran(runner, 0.05)
    assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
    isolation.let_go.set()
    await first
    assert len(isolation.specs) == 1
    assert (await ran(runner)).status is RunStatus.OK


async def test_a_run_has_what_is_left_of_its_caller_s_time() -> None:
    isolation = FakeIsolation()
    isolation.let_go.set()
    await ran(SkillRunner(FakeSkills(skill("x")), isolation, Limits(wall_s=60), 1), 5)
    assert 4 < isolation.specs[0].limits.wall_s <= 5


async def test_a_run_is_one_of_the_project_that_asked_for_it() -> None:
    isolation = FakeIsolation()
    isolation.let_go.set()
    runner, until = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1), asyncio.get_running_loop().time() + 10
    for project in ("ours", "theirs"):
        request = RunSkill(name="a", project=project)
        await runner.run(request, await runner.plan_run(request, until), no_files, until)
    assert [spec.project for spec in isolation.specs] == ["ours", "theirs"]


async def test_a_run_that_is_cancelled_while_it_waits_is_never_begun() -> None:
    isolation, control = FakeIsolation(), RunControl()
    runner = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1)
    first = asyncio.create_task(ran(runner))
    await isolation.began.wait()
    second = asyncio.create_task(ran(runner, control=control))
    await eventually(waiting_of(runner), bool)
    assert (runner.running, runner.waiting) == (1, 1)
    control.cancelled.set()
    cancelled = await second
    assert (cancelled.status, cancelled.exit_code) == (RunStatus.CANCELLED, None)
    isolation.let_go.set()
    await first
    assert (len(isolation.specs), runner.running, runner.waiting) == (1, 0, 0)


@pytest.mark.parametrize("moment", range(4))
async def test_a_task_that_is_cancelled_while_it_waits_keeps_no_slot(moment: int) -> None:
    isolation = FakeIsolation()
    runner = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1)
    first = asyncio.create_task(ran(runner))
    await isolation.began.wait()
    second = asyncio.create_task(ran(runner))
    await eventually(waiting_of(runner), bool)
    isolation.let_go.set()
    for _ in range(moment):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([first, second])
    async with asyncio.timeout(5):
        assert (await ran(runner)).status is RunStatus.OK


async def test_a_run_has_the_limits_that_its_skill_wishes_for() -> None:
    isolation = FakeIsolation()
    isolation.let_go.set()
    modest = skill("x").model_copy(update={"limits": SkillLimits(wall_s=2, memory_mib=4096, processes=8)})
    runner = SkillRunner(FakeSkills(modest), isolation, Limits(), 1, ceiling=Limits(memory_bytes=1024 * MIB))
    await ran(runner)
    limits = isolation.specs[0].limits
    assert (limits.wall_s, limits.memory_bytes, limits.processes) == (2, 1024 * MIB, 8)


async def test_a_run_reaches_what_an_operator_approved_and_not_what_its_skill_wants() -> None:
    wanting = skill("d").model_copy(update={"network": ("a.example:443", "b.example:80"), "network_approved": ()})
    approved = wanting.model_copy(update={"network_approved": ("b.example:80",)})
    isolation = FakeIsolation()
    isolation.let_go.set()
    for found in (wanting, approved):
        await ran(SkillRunner(FakeSkills(found), isolation, Limits(), 1))
    assert [spec.network for spec in isolation.specs] == [(), (HostPort("b.example", 80),)]


async def test_callers_that_wait_get_slots_in_turn_and_their_runs_come_in_order() -> None:
    isolation = FakeIsolation()
    runner = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1)
    first = asyncio.create_task(ran(runner))
    await isolation.began.wait()
    waiting = [first]
    for number, caller in enumerate(("flood", "flood", "flood", "calm"), start=1):
        waiting.append(asyncio.create_task(ran(runner, caller=caller)))
        await eventually(waiting_of(runner), number.__eq__)
    isolation.let_go.set()
    await asyncio.gather(*waiting)
    assert [spec.project for spec in isolation.specs] == ["default", "flood", "calm", "flood", "flood"]


async def test_a_run_that_waits_has_fetched_no_files_yet() -> None:
    isolation = FakeIsolation()
    runner = SkillRunner(FakeSkills(skill("x")), isolation, Limits(), 1)
    first = asyncio.create_task(ran(runner))
    await isolation.began.wait()
    fetched: list[int] = []

    async def fetch() -> Mapping[str, bytes]:
        fetched.append(runner.waiting)
        return {"a.txt": b"text"}

    request, until = RunSkill(name="a"), asyncio.get_running_loop().time() + 10
    second = asyncio.create_task(runner.run(request, await runner.plan_run(request, until), fetch, until))
    await eventually(waiting_of(runner), bool)
    assert fetched == []
    isolation.let_go.set()
    await asyncio.gather(first, second)
    assert (fetched, isolation.specs[1].files) == ([0], {"a.txt": b"text"})
