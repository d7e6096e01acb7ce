"""Pages of the history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from skillbus.contracts.sandbox.run_history import ListRuns, RunFile, RunRecord, RunsListed, RunState
from skillbus.contracts.sandbox.skill_runs import RunLimits
from skillbus.sandbox.domain.run.history import HistoryPortion, list_runs, resolve_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = RunLimits(
    wall_s=1, cpu_s=1, memory_bytes=1, processes=1, output_bytes=1, artifacts=1, artifacts_bytes=1, work_bytes=1
)
MESSAGE_BYTES = 1024 * 1024


def a_run(number: int, **changed: object) -> RunRecord:
    usual = {
        "run_id": f"{number:032x}",
        "skill": "say",
        "content_digest": "0" * 64,
        "action": "run",
        "state": RunState.OK,
        "began_at": NOW,
        "ends_by": NOW,
        "limits": LIMITS,
    }
    return RunRecord.model_validate(usual | changed)


@dataclass
class FakeHistory:
    """A history in memory, in portions of ten places; a place may be empty."""

    places: Sequence[RunRecord | None]
    portions: int = 0

    async def record_start(self, record: RunRecord) -> None:
        raise NotImplementedError

    async def record_end(self, record: RunRecord) -> None:
        raise NotImplementedError

    async def get_record(self, run_id: str) -> RunRecord | None:
        raise NotImplementedError

    async def read_portion(self, before: int | None) -> HistoryPortion:
        self.portions += 1
        end = len(self.places) if before is None else min(before, len(self.places))
        begin = max(0, end - 10)
        found = [(place, self.places[place]) for place in range(end - 1, begin - 1, -1)]
        return HistoryPortion([(place, it) for place, it in found if it is not None], begin or None)


async def pages(history: FakeHistory, **wanted: object) -> list[RunsListed]:
    read = list[RunsListed]()
    while not read or read[-1].next is not None:
        more = {"after": read[-1].next} if read else {}
        read.append(await list_runs(history, ListRuns.model_validate(wanted | more), NOW))
    return read


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 200])
async def test_every_run_is_on_one_page_and_no_page_is_too_long(limit: int) -> None:
    places = [a_run(number) if number % 3 else None for number in range(64)]
    read = await pages(FakeHistory(places), limit=limit)
    ids = [int(run.run_id, 16) for page in read for run in page.runs]
    assert ids == [number for number in reversed(range(64)) if number % 3]
    assert max(len(page.runs) for page in read) <= limit


async def test_runs_are_listed_by_the_time_when_they_began() -> None:
    history = FakeHistory([a_run(number, began_at=NOW + timedelta(minutes=number)) for number in range(30)])
    (page,) = await pages(history, since=NOW + timedelta(minutes=3), until=NOW + timedelta(minutes=5), limit=200)
    assert [int(run.run_id, 16) for run in page.runs] == [4, 3]


async def test_a_page_fits_a_message_whatever_the_names_of_files_are() -> None:
    files = tuple(RunFile(name="好" * 80, size_bytes=number) for number in range(256))
    places = [a_run(number, artifacts=files) for number in range(40)]
    read = await pages(FakeHistory(places), limit=200)
    assert sum(len(page.runs) for page in read) == 40
    assert max(len(page.model_dump_json().encode()) for page in read) < MESSAGE_BYTES


async def test_a_long_history_is_not_read_at_once() -> None:
    history = FakeHistory([a_run(number) for number in range(1000)])
    page = await list_runs(history, ListRuns(skill="other"), NOW)
    assert (page.runs, page.next is not None) == ((), True)
    assert history.portions <= 20


def test_a_run_is_lost_when_its_time_has_been_over_for_a_while() -> None:
    running = a_run(1, state=RunState.RUNNING)
    assert resolve_state(running, NOW + timedelta(seconds=29)).state is RunState.RUNNING
    assert resolve_state(running, NOW + timedelta(seconds=31)).state is RunState.LOST
    assert resolve_state(a_run(1), NOW + timedelta(days=1)).state is RunState.OK
