"""What the agent lets a program do, whatever the sandbox passes on."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from skillbus.agent.domain.builtins.tool import OuterCall
from skillbus.agent.domain.errors import ToolNotCallableError
from skillbus.agent.domain.programs.session import ProgramLimits, ProgramSession
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.agent.errors_on_the_wire import to_wire
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.sandbox.program_runs import CALLS_AT_ONCE, FRAME_BYTES, ProgramCalled

from .fakes import CatalogueInMemory

CALLS = CALLS_AT_ONCE + 4


@dataclass(slots=True)
class Caller:
    """Calls of other tools, which wait until they may go on."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    text: str = "done"
    called: list[CallTool] = field(default_factory=list)
    announced: list[ProgramCalled] = field(default_factory=list)
    cancelled: int = 0
    wanted: int = CALLS_AT_ONCE
    busy: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when as many calls are under way as are wanted."""

    async def call(self, request: CallTool, _run_id: str, _within_s: float, ending: asyncio.Event) -> ToolAnswer:
        self.called.append(request)
        if len(self.called) == self.wanted:
            self.busy.set()
        if request.id == "mcp:refused/tool":
            raise ToolNotCallableError("it is disabled")
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.go_on, ending)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        self.cancelled += ending.is_set()
        return ToolAnswer(text=self.text)

    async def announce(self, called: ProgramCalled) -> None:
        self.announced.append(called)

    def open_session(self, *, stream: bool = False) -> ProgramSession:
        outer = OuterCall("home", "0" * 32, None, 5.0, asyncio.Event(), stream, self.call)
        return ProgramSession(outer, CatalogueInMemory(), ProgramLimits(CALLS, 2**20), to_wire, self.announce)


def request(tool_id: str = "mcp:any/tool", **more: object) -> bytes:
    return json.dumps({"method": "call_tool", "id": tool_id, "arguments": {}, **more}).encode()


async def answer(session: ProgramSession, body: bytes) -> dict[str, dict[str, object]]:
    replied: dict[str, dict[str, object]] = json.loads(await asyncio.create_task(session.answer(body)))
    return replied


@pytest.fixture
def caller() -> Caller:
    made = Caller()
    made.go_on.set()
    return made


async def test_a_call_has_the_project_of_the_call_that_started_the_program(caller: Caller) -> None:
    replied = await answer(caller.open_session(), request(project="other", run_id="1" * 32))
    assert "error" not in replied
    assert replied["result"]["content"] == [{"type": "text", "text": "done"}]
    [called] = caller.called
    assert called.project == "home"
    assert called.run_id not in {"0" * 32, "1" * 32}


@pytest.mark.parametrize(
    "forged",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"method": "register_mcp_server", "id": "x"}', b"[" * 100_000],
)
async def test_what_is_no_request_is_refused_and_counted(forged: bytes, caller: Caller) -> None:
    session = caller.open_session()
    for _ in range(CALLS):
        assert (await answer(session, forged))["error"]["code"] == "invalid_request"
    assert (await answer(session, request()))["error"]["code"] == "overloaded"
    assert caller.called == []


async def test_more_calls_at_once_than_a_program_makes_are_refused() -> None:
    caller = Caller()
    session = caller.open_session()
    tasks = [asyncio.create_task(session.answer(request())) for _ in range(CALLS_AT_ONCE)]
    await caller.busy.wait()
    assert (await answer(session, request()))["error"]["code"] == "overloaded"
    caller.go_on.set()
    assert not any("error" in json.loads(replied) for replied in await asyncio.gather(*tasks))


async def test_the_calls_of_a_program_that_has_ended_are_cancelled_and_later_ones_refused() -> None:
    caller = Caller()
    session = caller.open_session()
    caller.wanted = 1
    waiting = asyncio.create_task(session.answer(request()))
    await caller.busy.wait()
    await session.close()
    assert (waiting.done(), caller.cancelled) == (True, 1)
    assert (await answer(session, request()))["error"]["code"] == "forbidden"


async def test_a_program_starts_no_program(caller: Caller) -> None:
    replied = await answer(caller.open_session(), request("builtin:run_code"))
    assert (replied["error"]["code"], caller.called) == ("forbidden", [])


async def test_a_result_that_fits_into_no_frame_is_an_error(caller: Caller) -> None:
    caller.text = "x" * FRAME_BYTES
    assert (await answer(caller.open_session(), request()))["error"]["code"] == "payload_too_large"


@pytest.mark.parametrize("stream", [True, False])
async def test_each_call_is_announced_to_those_who_asked(stream: bool, caller: Caller) -> None:
    session = caller.open_session(stream=stream)
    for tool_id in ("mcp:any/tool", "mcp:refused/tool"):
        await answer(session, request(tool_id))
    announced = [(one.number, one.id, one.code) for one in caller.announced]
    assert announced == ([(1, "mcp:any/tool", None), (2, "mcp:refused/tool", "forbidden")] if stream else [])
