"""Structured answers for learning: the learner asks the real agent, which asks a scripted model over HTTP."""

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from skillbus.common.bus import headers
from skillbus.common.bus.connection import Bus
from skillbus.common.chat.agent_chat import AgentChat
from skillbus.common.chat.structured_answer import AnswerMode, ModelSilentError
from skillbus.common.testing import WAIT_S
from skillbus.contracts.errors import ErrorCode
from skillbus.learner.domain.learning.model_prompt import ask_about

from ...scripted_answers import Answer, Call, build_chunk
from ...scripted_upstream import Exchange, fail, hang_after, send_raw
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
    raw = await AgentChat(bus.caller, 10).ask_model("auto", ask_about("<digest>…</digest>"), mode)
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
        await AgentChat(bus.caller, 10).ask_model("auto", ask_about("digest"), AnswerMode.NATIVE)


async def test_a_stream_that_is_cut_is_no_answer(bus: Bus, agent: Agent, around: Surroundings) -> None:
    around.upstream.script = lambda _: send_raw(build_chunk({"content": '{"items": ['}), end=False)
    with pytest.raises(ModelSilentError, match="a part of its answer had come"):
        await AgentChat(bus.caller, 10).ask_model("auto", ask_about("digest"), AnswerMode.NATIVE)


async def test_a_model_that_hangs_is_left_once_its_caller_leaves(bus: Bus, agent: Agent, around: Surroundings) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        asked.set()
        await exchange.closed.wait()
        left.set()

    around.upstream.script = lambda _: hang
    chat = AgentChat(bus.caller, 60)
    asking = asyncio.create_task(chat.ask_model("auto", ask_about("digest"), AnswerMode.NATIVE))
    async with asyncio.timeout(WAIT_S):
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await left.wait()
    assert len(around.upstream.received) == 1


async def test_a_model_that_hangs_is_left_when_its_time_is_over_and_asked_once(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    around.upstream.script = lambda _: hang_after()
    token = headers.deadline.set(time.time() + 0.5)
    with pytest.raises(ModelSilentError, match="did not answer in") as silent:
        await AgentChat(bus.caller, 60).ask_model("auto", ask_about("digest"), AnswerMode.NATIVE)
    headers.deadline.reset(token)
    assert silent.value.code is ErrorCode.DEADLINE_EXCEEDED
    assert len(around.upstream.received) <= 1
