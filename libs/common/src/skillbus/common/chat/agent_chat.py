"""Chat models over the bus: the agent asks them, with the registry's keys, retries and fallbacks."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pydantic import JsonValue

from skillbus.common.bus import headers
from skillbus.common.bus.caller import Caller
from skillbus.common.chat.structured_answer import AnswerMode, ModelSilentError, RawAnswer, StructuredQuestion
from skillbus.contracts.agent.chat import (
    Chat,
    ChatMessage,
    ChatOptions,
    ChatRole,
    DisclosureOptions,
    FunctionDefinition,
    ToolDefinition,
    TurnEnded,
    TurnLimits,
)
from skillbus.contracts.agent.turns import CANCEL_TURN, CHAT, TurnSelector
from skillbus.contracts.errors import ErrorCode, RequestError

_TURN_ENDS_S, _CALL_ENDS_S = 5.0, 30.0
"""Times after ours at which the agent would end the turn and answer. At its own limit of time it would ask the model
once more, for a last answer; we cancel the turn before that."""
_CANCEL_S: Final = 2.0
_SHARE: Final = 0.8
"""Part of the time that is left for a request in which the model may answer. The rest is for what follows."""
_REASON_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class AgentChat:
    """A `StructuredChat` whose turns end with the first answer, because no tool of skillbus is at hand.

    The limit is two steps: an answer at the limit gets a note, and loses the tools of its caller. A turn that nobody
    waits for any longer is cancelled, so that the provider is not asked on.
    """

    caller: Caller
    timeout_s: float
    """Longest time of one answer. It is shorter where the request being answered has less time left."""

    async def ask_model(self, model: str, question: StructuredQuestion, mode: AnswerMode) -> RawAnswer:
        wait_s = max(min(self.timeout_s, _SHARE * headers.caller_waits_s(self.timeout_s / _SHARE)), 0.0)
        request = Chat(
            turn_id=uuid4().hex,
            model=model,
            messages=_write_messages(question, mode),
            tools=_list_tools(question, mode),
            options=_choose_options(question, mode),
            disclosure=DisclosureOptions(enabled=False, top_k=0),
            limits=TurnLimits(steps=2, calls=0, time_s=wait_s + _TURN_ENDS_S),
        )
        token = headers.deadline.set(None)  # `wait_s` keeps it, and a turn can be cancelled after it
        try:
            ended = await self._run_turn(request, wait_s)
        except RequestError as error:
            raise ModelSilentError(error.message[:_REASON_CHARACTERS], error.code) from error
        finally:
            headers.deadline.reset(token)
        return RawAnswer(_read_text(ended), f"{ended.provider}/{ended.model}", ended.usage.total_tokens)

    async def _run_turn(self, request: Chat, wait_s: float) -> TurnEnded:
        try:
            async with asyncio.timeout(wait_s):
                return await self.caller.call(CHAT, request, timeout_s=wait_s + _CALL_ENDS_S)
        except TimeoutError as error:
            await self._cancel_turn(request)
            late = f"The model did not answer in {wait_s:.2g} s."
            raise RequestError(ErrorCode.DEADLINE_EXCEEDED, late) from error
        except asyncio.CancelledError:
            await self._cancel_turn(request)
            raise

    async def _cancel_turn(self, request: Chat) -> None:
        selector = TurnSelector(project=request.project, turn_id=request.turn_id or "")
        with suppress(RequestError):
            await self.caller.call(CANCEL_TURN, selector, timeout_s=_CANCEL_S)


def _write_messages(question: StructuredQuestion, mode: AnswerMode) -> tuple[ChatMessage, ...]:
    system = question.system
    if mode is AnswerMode.PROMPTED:
        system += f"\n\nAnswer with one JSON object of this schema and nothing else:\n{json.dumps(question.schema)}"
    return ChatMessage(role=ChatRole.SYSTEM, content=system), ChatMessage(role=ChatRole.USER, content=question.content)


def _list_tools(question: StructuredQuestion, mode: AnswerMode) -> tuple[ToolDefinition, ...]:
    if mode is not AnswerMode.TOOL:
        return ()
    function = FunctionDefinition(name=question.function, description=question.description, parameters=question.schema)
    return (ToolDefinition(function=function),)


def _choose_options(question: StructuredQuestion, mode: AnswerMode) -> ChatOptions:
    options = ChatOptions(temperature=0, max_completion_tokens=question.max_tokens)
    if mode is AnswerMode.NATIVE:
        wanted: JsonValue = {"name": question.function, "schema": question.schema, "strict": True}
        return options.model_copy(update={"response_format": {"type": "json_schema", "json_schema": wanted}})
    if mode is AnswerMode.TOOL:
        choice: JsonValue = {"type": "function", "function": {"name": question.function}}
        return options.model_copy(update={"tool_choice": choice})
    return options


def _read_text(ended: TurnEnded) -> str:
    """Return the arguments of the model's call, or its text."""
    for call in ended.message.tool_calls:
        return call.function.arguments
    return ended.message.text
