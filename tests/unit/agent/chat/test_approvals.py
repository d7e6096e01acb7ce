"""Calls that wait for a person: approved, changed, denied, expired, withdrawn, and where nobody can be asked."""

import asyncio

import pytest

from skillbus.agent.domain.chat.approval_desk import ARGUMENTS_BYTES
from skillbus.agent.domain.chat.engine import end_turn
from skillbus.agent.domain.chat.step_calls import CallApprovals
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.service.chats import split_time
from skillbus.contracts.agent.approvals import ApprovalOutcome, CallApproval
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.agent.turns import TurnEventKind

from .fakes import CALCULATE, TURN, Bench, Listener, ScriptedModels, ask, make_chat, make_tool, say

WIPE = make_tool("mcp:files/wipe")
CALL = WIPE.name


def bench(*calls: object, approval_s: float = 600.0) -> Bench:
    """A turn whose model calls a tool that needs an approval, with each of these arguments, and then answers."""
    answers = ask(*((CALL, {"a": given}) for given in calls))
    one = Bench(ScriptedModels([answers, say("Done.")]), listener=Listener(approval_s=approval_s))
    one.tools.found = [WIPE, CALCULATE]
    one.tools.tools[WIPE.id] = WIPE
    one.tools.marked = {WIPE.id}
    return one


def begin(one: Bench, **more: object) -> "asyncio.Task[TurnState]":
    return asyncio.create_task(one.run(make_chat("Wipe it.", approvals="wait", **more)))


async def wait_for(one: Bench) -> CallApproval:
    async with asyncio.timeout(5):
        return await one.listener.approvals.get()


def outcomes(one: Bench) -> list[ApprovalOutcome | None]:
    return [approval.outcome for approval in one.listener.ended]


async def test_a_call_waits_until_it_is_approved() -> None:
    one = bench("x")
    turn = begin(one)
    waiting = await wait_for(one)
    assert (waiting.id, waiting.arguments, waiting.reason) == (WIPE.id, {"a": "x"}, "an operator requires it")
    assert (waiting.call_id, waiting.program_call_id) == (f"call_{TURN}001", None)
    assert one.tools.calls == []
    assert one.listener.decide(waiting.call_id, approved=True) == WIPE.id
    ended = end_turn(await turn, None)
    assert [call.arguments for call in one.tools.calls] == [{"a": "x"}]
    assert (ended.message.content, ended.unapproved) == ("Done.", ())
    assert outcomes(one) == [ApprovalOutcome.APPROVED]
    assert [kind for kind, _ in one.listener.calls] == [TurnEventKind.CALLING, TurnEventKind.CALLED]


async def test_a_denied_call_is_not_made_and_the_model_is_told_why() -> None:
    one = bench("x")
    turn = begin(one)
    waiting = await wait_for(one)
    one.listener.decide(waiting.call_id, approved=False, reason="not on Fridays")
    state = await turn
    assert one.tools.calls == []
    assert "a person denied it: not on Fridays" in one.models.asked[1].messages[-1].text
    assert state.steps[0].calls[0].is_error
    assert CALL in [tool.name for tool in state.toolbox.shown]


async def test_a_changed_call_is_made_as_it_was_changed_and_the_model_is_told() -> None:
    one = bench("x")
    turn = begin(one)
    waiting = await wait_for(one)
    one.listener.decide(waiting.call_id, approved=True, arguments={"a": "y"})
    await turn
    assert [call.arguments for call in one.tools.calls] == [{"a": "y"}]
    assert 'changed the arguments before the call: {"a":"y"}' in one.models.asked[1].messages[-1].text


async def test_a_call_that_nobody_answers_expires_as_denied() -> None:
    one = bench("x", approval_s=0.01)
    await begin(one)
    assert one.tools.calls == []
    assert "nobody approved it in time" in one.models.asked[1].messages[-1].text
    assert outcomes(one) == [ApprovalOutcome.EXPIRED]


async def test_calls_that_wait_at_once_are_decided_each_by_itself_and_only_once() -> None:
    one = bench("x", "y")
    turn = begin(one)
    first, second = await wait_for(one), await wait_for(one)
    assert one.listener.decide(second.call_id, approved=True) == WIPE.id
    assert one.listener.decide(second.call_id, approved=False) is None
    assert one.listener.decide("call_other", approved=True) is None
    assert one.listener.decide(first.call_id, approved=False) == WIPE.id
    await turn
    assert [call.arguments for call in one.tools.calls] == [second.arguments]
    results = [message.text for message in one.models.asked[1].messages[-2:]]
    assert ["denied" in result for result in results] == [True, False]


async def test_a_cancelled_turn_waits_no_longer_and_calls_nothing() -> None:
    one = bench("x")
    turn = begin(one)
    waiting = await wait_for(one)
    turn.cancel()
    await asyncio.wait([turn])
    assert one.listener.decide(waiting.call_id, approved=True) is None
    assert (one.tools.calls, outcomes(one)) == ([], [ApprovalOutcome.WITHDRAWN])


async def test_the_time_of_a_call_stands_still_while_it_waits() -> None:
    request, listener = CallTool(id=WIPE.id, run_id=TURN), Listener()
    approvals = CallApprovals(request, "call_1", listener, left_s=0.02)
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, listener.decide, "call_1", True)
    async with approvals.limit:
        assert await approvals.approve(request, "why") == request
    assert listener.waited_s >= 0.02


async def test_the_waits_are_no_time_of_the_turn() -> None:
    one = bench("x")
    turn = begin(one)
    one.listener.decide((await wait_for(one)).call_id, approved=True)
    state = await turn
    assert state.waited_s == one.listener.waited_s > 0
    longer = state.model_copy(update={"waited_s": state.waited_s + 1_000})
    assert longer.measure_time_left_s() - state.measure_time_left_s() == pytest.approx(1_000, abs=100)


async def test_where_nobody_can_be_asked_the_call_is_not_made_and_the_answer_says_so() -> None:
    one = bench("x", "y")
    ended = end_turn(await one.run(make_chat()), None)
    assert (one.tools.calls, one.listener.approvals.qsize()) == ([], 0)
    assert "who cannot be asked here" not in (ended.message.content or "")
    assert isinstance(ended.message.content, str)
    assert ended.message.content.startswith("Done.\n\n[Not called, because a person has to approve it: mcp:files/wipe.")
    assert "".join(one.listener.text) == ended.message.content
    assert ended.unapproved == (WIPE.id,)


async def test_arguments_that_nobody_could_read_are_not_put_to_a_person() -> None:
    one = bench("x" * ARGUMENTS_BYTES)
    await begin(one)
    assert (one.tools.calls, one.listener.approvals.qsize()) == ([], 0)
    assert "too large to be shown to a person" in one.models.asked[1].messages[-1].text


@pytest.mark.parametrize(
    ("left_s", "expected"), [(930.0, (300.0, 600.0)), (330.0, (154.0, 154.0)), (5_000.0, (300.0, 600.0))]
)
def test_a_turn_and_its_waits_end_before_the_deadline_of_the_request(
    left_s: float, expected: tuple[float, float]
) -> None:
    assert split_time(left_s, 300.0, 600.0) == expected
