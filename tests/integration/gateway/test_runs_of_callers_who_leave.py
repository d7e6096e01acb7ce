"""Runs over real sockets: followed while they print, and ended when their caller hangs up."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import publish_to_feed
from skillbus.common.bus.responder import route
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Content
from skillbus.contracts.sandbox.run_history import (
    CANCEL_RUN,
    RUN_PRINTED,
    OutputStream,
    RunCancelled,
    RunEvent,
    RunEventKind,
    RunSelector,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, RunStatus, SkillRan

from .conftest import Serve

RUN = "0123456789abcdef" * 2
WAIT_S = 5.0
PATH = "/api/skills/calculate/run"
EMPTY = Content(size_bytes=0, sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", inline=b"")


@dataclass
class HeldSandbox:
    """Runs last until they are cancelled or let go."""

    bus: Bus
    late: int = 0
    """So many wishes to cancel come before the run is known."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: list[RunSelector] = field(default_factory=list)

    async def run(self, request: RunSkill) -> SkillRan:
        run_id = request.run_id or ""
        if request.stream:
            for event in (
                RunEvent(run_id=run_id, number=0, kind=RunEventKind.BEGUN),
                RunEvent(
                    run_id=run_id, number=1, kind=RunEventKind.OUTPUT, stream=OutputStream.STDOUT, data=b"first\n"
                ),
            ):
                await publish_to_feed(self.bus.client, RUN_PRINTED, run_id, event)
        self.begun.set()
        await asyncio.wait_for(self.let_go.wait(), WAIT_S)
        if request.stream:
            last = RunEvent(run_id=run_id, number=2, kind=RunEventKind.ENDED, state=RunState.OK)
            await publish_to_feed(self.bus.client, RUN_PRINTED, run_id, last)
        return SkillRan(
            run_id=run_id,
            status=RunStatus.OK,
            exit_code=0,
            stdout=EMPTY,
            stderr=EMPTY,
            duration_ms=1,
            truncated=False,
            isolation="full",
        )

    async def cancel(self, request: RunSelector) -> RunCancelled:
        if self.late:
            self.late -= 1
            raise RequestError(ErrorCode.NOT_FOUND, "Not yet.")
        self.cancelled.append(request)
        self.let_go.set()
        return RunCancelled(run_id=request.run_id, ending=True)


@pytest.fixture
async def sandbox(services: Bus, serve: Serve) -> HeldSandbox:
    held = HeldSandbox(services)
    await serve(route(RUN_SKILL, held.run), route(CANCEL_RUN, held.cancel))
    return held


async def events_of(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, object]]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_what_a_run_prints_comes_before_it_ends(http: httpx.AsyncClient, sandbox: HeldSandbox) -> None:
    async with asyncio.timeout(WAIT_S), http.stream("POST", f"{PATH}?stream=1", json={"run_id": RUN}) as answer:
        events = events_of(answer)
        first, second = await anext(events), await anext(events)
        sandbox.let_go.set()
        rest = [event async for event in events]
    assert (first, second[0], second[1]["text"]) == (("begun", {"run_id": RUN}), "output", "first\n")
    assert [(name, data["run_id"], data["status"]) for name, data in rest] == [("reply", RUN, "ok")]
    assert sandbox.cancelled == []


async def test_a_caller_that_stops_following_ends_the_run(http: httpx.AsyncClient, sandbox: HeldSandbox) -> None:
    async with asyncio.timeout(WAIT_S):
        async with http.stream("POST", f"{PATH}?project=p", json={}, headers={"Accept": "text/event-stream"}) as answer:
            (name, data) = await anext(events_of(answer))
        await sandbox.let_go.wait()
    assert name == "begun"
    assert sandbox.cancelled == [RunSelector(project="p", run_id=str(data["run_id"]))]


@pytest.mark.parametrize("late", [0, 2])
async def test_a_caller_that_hangs_up_ends_its_run(http: httpx.AsyncClient, sandbox: HeldSandbox, late: int) -> None:
    sandbox.late = late
    async with asyncio.timeout(WAIT_S):
        asking = asyncio.create_task(http.post(PATH, json={"run_id": RUN}))
        await sandbox.begun.wait()
        asking.cancel()
        await sandbox.let_go.wait()
    assert sandbox.cancelled == [RunSelector(run_id=RUN)]


async def test_a_run_that_is_waited_for_is_not_cancelled(http: httpx.AsyncClient, sandbox: HeldSandbox) -> None:
    sandbox.let_go.set()
    answer = await http.post(PATH, json={})
    assert (answer.json()["status"], sandbox.cancelled) == ("ok", [])
