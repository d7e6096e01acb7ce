"""Calls of programs that the followers of a turn are told of, and how many."""

from skillbus.agent.domain.chat.running_turn import RunningTurn
from skillbus.contracts.agent.chat import CalledTool
from skillbus.contracts.agent.turns import TurnEventKind

from .fakes import CALCULATE, TURN, Bench, ScriptedModels, ask, make_chat, say


async def test_a_program_with_very_many_calls_tells_the_first_and_counts_all() -> None:
    one = Bench(ScriptedModels([ask((CALCULATE.name, {"a": "x"})), say("Done.")]))
    one.tools.found = [CALCULATE]
    one.tools.inner_calls = 205
    state = await one.run(make_chat())
    told = [call for _, call in one.listener.calls]
    inner = [call for call in told if call.program_call_id is not None]
    assert (len(inner), len(told)) == (200, 202)
    assert {call.program_call_id for call in inner} == {told[0].call_id}
    assert inner[0].call_id == "0" * 32
    assert (told[-1].program_calls, state.steps[0].calls) == (205, (told[-1],))


def test_a_turn_keeps_a_bounded_number_of_calls_of_programs_and_all_of_its_own() -> None:
    turn = RunningTurn(TURN, "default")
    for number in range(1_005):
        turn.add_call(TurnEventKind.CALLED, CalledTool(call_id=str(number), id=CALCULATE.id, program_call_id="p"))
    turn.add_call(TurnEventKind.CALLED, CalledTool(call_id="p", id="builtin:run_code"))
    assert len(turn.messages) == 1_001
    assert turn.read_page(999)[0].call == CalledTool(call_id="p", id="builtin:run_code")
