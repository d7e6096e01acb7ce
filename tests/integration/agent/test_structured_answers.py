"""Structured answers for learning: the learner asks the real agent, which asks a scripted model over HTTP."""

import json
from collections.abc import Callable

import pytest

from skillbus.common.bus.connection import Bus
from skillbus.learner.adapters.learning.agent_chat import AgentChat
from skillbus.learner.domain.learning.model_extraction import AnswerMode, ModelSilentError
from skillbus.learner.domain.learning.model_prompt import make_answer_schema

from ...scripted_answers import Answer, Call
from ...scripted_upstream import fail
from .conftest import Agent
from .test_turns_on_the_bus import Surroundings, around

__all__ = ["around"]

ANSWER = json.dumps({"items": [], "nothing_found_reason": "it is all routine"})


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        (AnswerMode.NATIVE, Answer(ANSWER)),
        (AnswerMode.TOOL, Answer((), [Call("record_knowledge", json.loads(ANSWER))])),
        (AnswerMode.PROMPTED, Answer(ANSWER)),
    ],
)
async def test_each_way_asks_the_provider_in_its_own_form(
    bus: Bus, agent: Agent, around: Surroundings, mode: AnswerMode, answer: Answer
) -> None:
    around.upstream.script = lambda _: answer
    raw = await AgentChat(bus.caller, 10).ask_model("auto", "<digest>…</digest>", mode, make_answer_schema())
    assert json.loads(raw.text) == json.loads(ANSWER)
    assert raw.tokens > 0
    (received,) = around.upstream.received
    asked: Callable[[str], bool] = received.body.__contains__
    forms = (asked("response_format"), bool(received.tool_names), "JSON object of this schema" in str(received.body))
    assert forms == tuple(mode is form for form in AnswerMode)
    # No tool of skillbus is at hand while a model reads what machines wrote.
    assert set(received.tool_names) <= {"record_knowledge"}


async def test_a_provider_that_refuses_is_an_error_with_its_reason(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    around.upstream.script = lambda _: fail(400, "response_format is not supported")
    with pytest.raises(ModelSilentError, match="response_format is not supported"):
        await AgentChat(bus.caller, 10).ask_model("auto", "digest", AnswerMode.NATIVE, make_answer_schema())
