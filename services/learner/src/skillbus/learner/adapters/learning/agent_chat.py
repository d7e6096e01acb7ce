"""Chat models over the bus: the agent asks them, with the registry's keys, retries and fallbacks."""

import json
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from skillbus.common.bus.caller import Caller
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
from skillbus.contracts.agent.turns import CHAT
from skillbus.contracts.errors import RequestError
from skillbus.learner.domain.learning.model_extraction import AnswerMode, ModelSilentError, RawAnswer
from skillbus.learner.domain.learning.model_prompt import SYSTEM

_FUNCTION: Final = "record_knowledge"
_ANSWER_TOKENS: Final = 4_000


@dataclass(frozen=True, slots=True)
class AgentChat:
    """A `StructuredChat` whose turns end with the first answer, because no tool of skillbus is at hand.

    The limit is two steps: an answer at the limit gets a note, and loses the tools of its caller.
    """

    caller: Caller
    timeout_s: float

    async def ask_model(self, model: str, digest: str, mode: AnswerMode, schema: dict[str, JsonValue]) -> RawAnswer:
        request = Chat(
            model=model,
            messages=_write_messages(digest, mode, schema),
            tools=_list_tools(mode, schema),
            options=_choose_options(mode, schema),
            disclosure=DisclosureOptions(enabled=False, top_k=0),
            limits=TurnLimits(steps=2, calls=0, time_s=self.timeout_s),
        )
        try:
            ended = await self.caller.call(CHAT, request, timeout_s=self.timeout_s + 10)
        except RequestError as error:
            raise ModelSilentError(error.message[:300]) from error
        return RawAnswer(_read_text(ended), f"{ended.provider}/{ended.model}", ended.usage.total_tokens)


def _write_messages(digest: str, mode: AnswerMode, schema: dict[str, JsonValue]) -> tuple[ChatMessage, ...]:
    system = SYSTEM
    if mode is AnswerMode.PROMPTED:
        system += f"\n\nAnswer with one JSON object of this schema and nothing else:\n{json.dumps(schema)}"
    return ChatMessage(role=ChatRole.SYSTEM, content=system), ChatMessage(role=ChatRole.USER, content=digest)


def _list_tools(mode: AnswerMode, schema: dict[str, JsonValue]) -> tuple[ToolDefinition, ...]:
    if mode is not AnswerMode.TOOL:
        return ()
    function = FunctionDefinition(name=_FUNCTION, description="Record what the digest proves.", parameters=schema)
    return (ToolDefinition(function=function),)


def _choose_options(mode: AnswerMode, schema: dict[str, JsonValue]) -> ChatOptions:
    options = ChatOptions(temperature=0, max_completion_tokens=_ANSWER_TOKENS)
    if mode is AnswerMode.NATIVE:
        wanted: JsonValue = {"name": _FUNCTION, "schema": schema, "strict": True}
        return options.model_copy(update={"response_format": {"type": "json_schema", "json_schema": wanted}})
    if mode is AnswerMode.TOOL:
        choice: JsonValue = {"type": "function", "function": {"name": _FUNCTION}}
        return options.model_copy(update={"tool_choice": choice})
    return options


def _read_text(ended: TurnEnded) -> str:
    """Return the arguments of the model's call, or its text."""
    for call in ended.message.tool_calls:
        return call.function.arguments
    return ended.message.text
