"""Pages of runs, as a browser gets them."""

from datetime import UTC, datetime, timedelta

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.sandbox.run_history import (
    GET_RUN,
    LIST_RUNS,
    ListRuns,
    RunFile,
    RunRecord,
    RunsListed,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import RunLimits, RunUsage
from skillbus.gateway.service.pages.sections.runs import STATE_NAMES

from .fakes import KEY, World
from .page_visits import EVIL, assert_harmless, get_page

ID = "0a" * 16
PAGE = f"/runs/{ID}"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRecord(
    run_id=ID,
    skill="calculate",
    content_digest="cd" * 32,
    action=EVIL,
    state=RunState.MEMORY,
    began_at=NOW,
    ends_by=NOW,
    isolation=EVIL,
    limits=RunLimits(
        wall_s=30,
        cpu_s=20,
        memory_bytes=512 * 2**20,
        processes=64,
        output_bytes=2**20,
        artifacts=100,
        artifacts_bytes=2**24,
        work_bytes=2**26,
    ),
    used=RunUsage(
        waited_ms=3, wall_ms=1500, cpu_ms=900, peak_bytes=512 * 2**20, output_bytes=0, artifacts=1, artifacts_bytes=7
    ),
    truncated=True,
    detail=EVIL,
    artifacts=(RunFile(name=f"out/{EVIL}", size_bytes=7),),
)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_RUNS, lambda _: RunsListed(runs=(RUN,), next="77"))
    made.caller.on(GET_RUN, lambda _: RUN)
    return made


@pytest.mark.parametrize("path", ["/runs", PAGE])
async def test_no_text_of_a_run_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert_harmless(answer)


async def test_the_list_has_its_filters_in_the_address_and_links_to_the_next_page(world: World) -> None:
    page = await get_page(world, "/runs?skill=calculate&state=memory&after=9")
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True, mode="json")
    assert asked == {"skill": "calculate", "state": "memory", "after": "9"}
    assert "skill=calculate&amp;state=memory&amp;after=77" in page.text


async def test_the_list_shows_the_runs_of_the_last_minutes(world: World) -> None:
    earliest = datetime.now(UTC) - timedelta(minutes=15)
    page = await get_page(world, "/runs?within=15")
    asked = world.caller.asked[-1][1]
    assert isinstance(asked, ListRuns)
    assert asked.since is not None
    assert earliest <= asked.since <= datetime.now(UTC) - timedelta(minutes=15)
    assert '<option value="15" selected>' in page.text
    assert "within=15&amp;after=77" in page.text
    assert (await get_page(world, "/runs?within=7")).status_code == 400


async def test_a_run_shows_what_it_used_beside_its_limits_and_what_ended_it(world: World) -> None:
    page = (await get_page(world, PAGE)).text
    assert "ended at its memory limit" in page
    for amount in ("1.5 s", "30.0 s", "900 ms", "512.0 MiB", "0 B"):
        assert amount in page, amount
    assert f"/api{PAGE}/artifacts/out/%3Cscript%3E" in page


async def test_what_was_not_measured_is_a_dash(world: World) -> None:
    assert RUN.used is not None
    used = RUN.used.model_copy(update={"peak_bytes": None, "cpu_ms": 0})
    world.caller.on(GET_RUN, lambda _: RUN.model_copy(update={"used": used}))
    answer = await get_page(world, PAGE)
    assert answer.status_code == 200
    assert answer.text.count(">–</td>") == 4, "CPU, memory, processes, working folder"


async def test_only_a_run_that_goes_on_is_cancelled_and_by_those_who_may_run(world: World) -> None:
    keys = {role: world.add_key(role, "default") for role in Role}
    assert 'data-testid="cancel"' not in (await get_page(world, PAGE, keys[Role.ADMIN])).text
    going = RUN.model_copy(update={"state": RunState.RUNNING, "used": None, "artifacts": ()})
    world.caller.on(GET_RUN, lambda _: going)
    shown = {role: (await get_page(world, PAGE, key)).text for role, key in keys.items()}
    assert [role for role, page in shown.items() if 'data-testid="cancel"' in page] == [
        role for role in Role if role.includes(Role.RUNNER)
    ]


async def test_only_the_page_of_a_run_that_goes_on_follows_it(world: World) -> None:
    assert "data-live" not in (await get_page(world, PAGE)).text
    going = RUN.model_copy(update={"state": RunState.RUNNING, "used": None, "artifacts": ()})
    world.caller.on(GET_RUN, lambda _: going)
    page = (await get_page(world, f"{PAGE}?project=team")).text
    assert f'data-live="/api{PAGE}/events?project=team" data-part="#run"' in page
    assert page.count('<div id="run">') == 1
    assert "/runs.js" in page


async def test_a_sandbox_that_is_away_is_an_error_page(world: World) -> None:
    world.caller.on(LIST_RUNS, lambda _: RequestError(ErrorCode.UNAVAILABLE, "No sandbox is running."))
    answer = await get_page(world, "/runs")
    assert answer.status_code == 503
    assert "unavailable" in answer.text


def test_every_state_has_a_name() -> None:
    assert set(STATE_NAMES) == set(RunState)
