"""The ReAct engine: think, choose, call, observe, until the model answers or a limit is met.

The state of a turn between two steps is a `TurnState`: `begin_turn` makes it, `take_step` returns the next one, and
`end_turn` makes the result of the last one.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog
from pydantic_core import to_json

from skillbus.agent.domain.chat.citations import list_citations
from skillbus.agent.domain.chat.model import ChatModels, ModelAnswer, ModelCall
from skillbus.agent.domain.chat.ports import BuildKnowledge, CatalogueSize, FunctionFinder, TurnStore
from skillbus.agent.domain.chat.prompt import (
    READ_SKILL,
    SEARCH_TOOL,
    add_knowledge,
    ask_last_answer,
    describe_limit,
    describe_unapproved,
    find_last_user_message,
    instruct_model,
)
from skillbus.agent.domain.chat.step_calls import CallListener, StepCaller
from skillbus.agent.domain.chat.toolbox import ShownTool, Toolbox, estimate_tokens
from skillbus.agent.domain.chat.turn_state import TurnState, make_call_id, read_turn_id
from skillbus.agent.domain.errors import ModelFailedError, ToolUnknownError
from skillbus.contracts.agent.chat import (
    Chat,
    ChatMessage,
    ChatRole,
    DisclosureUsage,
    FinishReason,
    FunctionDefinition,
    TokenUsage,
    ToolCallPart,
    TurnEnded,
    TurnLimit,
    TurnStep,
)
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.errors import RequestError
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt

LAST_ANSWER_S: Final = 20.0
"""Time for a last answer after the time of the turn is over."""
_LEAST_S: Final = 0.1
_TOLD_CHARACTERS: Final = 2_000
"""Beginning of a text in the record of a step."""
TEXT_CHARACTERS: Final = 100_000
"""Longest text of a turn, so that its result fits into a message of the bus. A longer one is cut, as by
`max_completion_tokens`."""
ARGUMENTS_CHARACTERS: Final = 100_000
"""Longest arguments of all calls in one answer of a model."""
_BETWEEN_STEPS: Final = "\n\n"
"""Text between the texts of two steps."""
_STEPS_BYTES: Final = 300_000
"""Size of all steps in the result of a turn, as JSON; with the text it fits into a message of the bus."""
_BRIEF_CHARACTERS: Final = 100
_QUERY_CHARACTERS: Final = 2_000
_RESTORED_TURNS: Final = 16
"""Most earlier turns of which the hidden steps are read, the latest ones."""
_RESTORED_CHARACTERS: Final = 1_000_000
"""Most characters of hidden steps that are restored."""

log = structlog.get_logger(__name__)


class TurnListener(CallListener, Protocol):
    """Receiver of what happens in a turn, at once."""

    def add_text(self, text: str) -> None:
        """Take more text of the answer."""


@dataclass(frozen=True, slots=True)
class EnginePorts:
    """Ports of the engine."""

    models: ChatModels
    finder: FunctionFinder
    build_knowledge: BuildKnowledge
    turns: TurnStore
    caller: StepCaller


class ReActEngine:
    """Runs turns. It keeps nothing between two calls of its methods."""

    def __init__(self, ports: EnginePorts) -> None:
        self._ports = ports

    async def begin_turn(self, chat: Chat, turn_id: str) -> TurnState:
        """Return the first state: with the tools that fit the words of the user, and the knowledge asked for.

        Raises:
            ToolUnknownError: A tool that the caller names does not exist, is external, or is not active.
            RequestError: The knowledge cannot be had.
        """
        history, shown, knowledge = await asyncio.gather(
            self._restore_history(chat), self._find_tools(chat), self._build_knowledge(chat)
        )
        taken = {tool.function.name for tool in chat.tools}
        toolbox = Toolbox().add_tools((tool for tool in shown if tool.name not in taken), 1)
        if toolbox.shown:
            history = instruct_model(history, toolbox.shown)
        known: tuple[str, ...] = ()
        if knowledge is not None:
            history = add_knowledge(history, knowledge.text)
            known = tuple(f"{item.id} v{item.version}" for item in knowledge.items)
        return TurnState(
            turn_id=turn_id,
            chat=chat,
            began_at=time.time(),
            history=history,
            toolbox=toolbox,
            known_items=known,
            knowledge_request=None if knowledge is None else knowledge.request_id,
        )

    async def take_step(self, state: TurnState, models: Sequence[ChatModel], listener: TurnListener) -> TurnState:
        """Ask the model, call the tools that it chose, and return the next state. The last one has a `finish_reason`.

        Raises:
            ModelFailedError, ModelRefusedError: The model did not answer.
        """
        state = state.model_copy(update={"limit": state.find_limit()})
        number = len(state.steps) + 1
        toolbox = state.toolbox if state.limit is not None else state.toolbox.drop_unused(number)
        state = state.model_copy(
            update={
                "toolbox": toolbox,
                "shown_tokens": state.shown_tokens + estimate_tokens(toolbox.functions),
                "shown_names": state.shown_names | {tool.name for tool in toolbox.shown},
            }
        )
        answer = await self._ask_model(state, models, listener)
        if answer is None:
            # The time is over. The next step asks for a last answer, unless this one was it.
            is_last = state.limit is not None
            state = state.model_copy(update={"limit": state.limit or TurnLimit.TIME})
            return _finish(state, listener) if is_last else state
        state = _add_answer(state, answer)
        if answer.finish_reason is FinishReason.LENGTH and state.measure_time_left_s() <= 0:
            state = state.model_copy(update={"limit": state.limit or TurnLimit.TIME})
        ours, theirs = _split_calls(state, answer.message.tool_calls)
        if state.limit is not None or not (ours or theirs):
            return _finish(state, listener, answer.finish_reason)
        if ours:
            state = await self._ports.caller.call_tools(state, ours, listener)
        if theirs:
            state = state.model_copy(update={"finish_reason": FinishReason.TOOL_CALLS, "open_calls": theirs})
            await self._ports.turns.save_turn(state)
        return state

    async def _ask_model(
        self, state: TurnState, models: Sequence[ChatModel], listener: TurnListener
    ) -> ModelAnswer | None:
        """Return the model's answer: at the end of the time what there is of it, or None."""
        left_s = LAST_ANSWER_S if state.limit is not None else max(state.measure_time_left_s(), _LEAST_S)
        text, separate, answer = list[str](), bool(state.text), None
        room = max(0, TEXT_CHARACTERS - len(state.text) - len(_BETWEEN_STEPS))
        stream = self._ports.models.stream_answer(models, _make_model_call(state))
        try:
            async with asyncio.timeout(left_s), aclosing(stream):
                async for piece in stream:
                    if isinstance(piece, ModelAnswer):
                        answer = piece
                    elif piece:
                        piece = piece[:room]  # noqa: PLW2901 - the rest is cut
                        room -= len(piece)
                        text.append(piece)
                        if not state.is_formatted:
                            listener.add_text(f"{_BETWEEN_STEPS}{piece}" if separate else piece)
                            separate = False
                        if not room:
                            return _cut_answer(models, text)
        except TimeoutError:
            return _cut_answer(models, text) if text and not state.is_formatted else None
        if answer is None:
            raise ModelFailedError("the answer of the model has no end")
        return _rename_calls(state, answer)

    async def _find_tools(self, chat: Chat) -> tuple[ShownTool, ...]:
        """Return the tools that are shown before the first step: those shown always, then those that fit."""
        disclosure = chat.disclosure
        if chat.options.tool_choice == "none" or not (disclosure.enabled or disclosure.always):
            return ()
        ids = (SEARCH_TOOL, *disclosure.always) if disclosure.enabled else disclosure.always
        always = [
            tool.model_copy(update={"always": True})
            for tool in await self._ports.finder.describe_tools(chat.project, ids)
        ]
        if missing := set(disclosure.always) - {tool.id for tool in always}:
            named = ", ".join(repr(tool_id[:100]) for tool_id in sorted(missing))
            raise ToolUnknownError(f"nothing that can be called has the id {named}: search or list the tools")
        asked = find_last_user_message(chat.messages)
        query = "" if asked is None else chat.messages[asked].text.strip()[:_QUERY_CHARACTERS]
        if not disclosure.enabled or not disclosure.top_k or not query:
            return tuple(always)
        try:
            found = await self._ports.finder.find_functions(
                chat.project, query, disclosure.top_k, disclosure.tool_types
            )
        except RequestError as error:
            # The model can search by itself, and is told then why the search fails.
            log.warning("tools_not_found_before_turn", project=chat.project, code=error.code)
            found = ()
        if any(tool.instructions_only for tool in found):
            found = (*found, *await self._ports.finder.describe_tools(chat.project, (READ_SKILL,)))
        return (*always, *found)

    async def _build_knowledge(self, chat: Chat) -> ContextBuilt | None:
        wanted, asked = chat.knowledge, find_last_user_message(chat.messages)
        if wanted is None or asked is None or not (query := chat.messages[asked].text.strip()):
            return None
        request = BuildContext(
            project=wanted.project or chat.project,
            scope=wanted.scope,
            query=query[:_QUERY_CHARACTERS],
            budget_tokens=wanted.budget,
        )
        return await self._ports.build_knowledge(request)

    async def _restore_history(self, chat: Chat) -> tuple[ChatMessage, ...]:
        """Return the caller's messages. Answers that called its tools are replaced by all steps before that call."""
        ended = [turn_id for message in chat.messages if (turn_id := read_turn_id(message)) is not None]
        kept, room = dict[str, TurnState](), _RESTORED_CHARACTERS
        for turn_id in dict.fromkeys(ended[: -_RESTORED_TURNS - 1 : -1]):
            stored = await self._ports.turns.load_turn(chat.project, turn_id)
            if stored is not None and (room := room - sum(len(message.text) for message in stored.added)) >= 0:
                kept[turn_id] = stored
        history = list[ChatMessage]()
        for message in chat.messages:
            turn = kept.pop(read_turn_id(message) or "", None)  # once, however often the caller repeats it
            history += (message,) if turn is None else turn.added
        return tuple(history)


def end_turn(state: TurnState, catalogue: CatalogueSize | None) -> TurnEnded:
    """Return the result of a turn whose state has a `finish_reason`."""
    disclosure = None
    if state.shown_names:
        disclosure = DisclosureUsage(
            shown_tools=len(state.shown_names),
            shown_tokens=state.shown_tokens,
            all_tools=None if catalogue is None else catalogue.tools,
            all_tokens=None if catalogue is None else catalogue.tokens * len(state.steps),
        )
    return TurnEnded(
        turn_id=state.turn_id,
        provider=state.provider,
        model=state.model,
        message=ChatMessage(role=ChatRole.ASSISTANT, content=state.text or None, tool_calls=state.open_calls),
        finish_reason=state.finish_reason or FinishReason.STOP,
        limit=state.limit,
        unapproved=tuple(dict.fromkeys(state.unapproved)),
        usage=state.usage,
        disclosure=disclosure,
        steps=_shorten_steps(state.steps),
        citations=list_citations(state.text, state.known_items),
        knowledge_request=state.knowledge_request,
    )


def _shorten_steps(steps: Sequence[TurnStep]) -> tuple[TurnStep, ...]:
    """Return the steps; if they are too large for the result of a turn, without arguments and with short texts."""
    if sum(len(to_json(step)) for step in steps) <= _STEPS_BYTES:
        return tuple(steps)
    return tuple(
        step.model_copy(
            update={
                "text": step.text[:_BRIEF_CHARACTERS],
                "shown": (),
                "calls": tuple(
                    call.model_copy(update={"arguments": {}, "text": call.text[:_BRIEF_CHARACTERS]})
                    for call in step.calls
                ),
            }
        )
        for step in steps
    )


def _make_model_call(state: TurnState) -> ModelCall:
    """Return the request of the next step. At a limit the tools stay, so that the prompt stays in the cache."""
    theirs = () if state.chat.options.tool_choice == "none" else state.chat.tools
    functions: tuple[FunctionDefinition, ...] = (*state.toolbox.functions, *(tool.function for tool in theirs))
    options, messages = state.chat.options, state.messages
    if state.steps or not functions:  # a choice of the caller holds for the first step, or the turn would never end
        options = options.model_copy(update={"tool_choice": None})
    if state.limit is not None:
        messages = (*messages, ask_last_answer(state.limit))
        options = options.model_copy(update={"tool_choice": "none" if functions else None})
    return ModelCall(messages, functions, options)


def _add_answer(state: TurnState, answer: ModelAnswer) -> TurnState:
    """Return the state with a model's answer as its last step. Of formatted text only that of the last step counts."""
    text = answer.message.text
    step = TurnStep(
        number=len(state.steps) + 1,
        provider=answer.provider,
        model=answer.model,
        text=text[:_TOLD_CHARACTERS],
        shown=tuple(tool.name for tool in state.toolbox.shown),
        usage=answer.usage,
    )
    changed = {
        "added": (*state.added, answer.message),
        "steps": (*state.steps, step),
        "text": text if state.is_formatted else _BETWEEN_STEPS.join(filter(None, (state.text, text))),
        "provider": answer.provider,
        "model": answer.model,
    }
    return state.model_copy(update=changed)


def _cut_answer(models: Sequence[ChatModel], text: Sequence[str]) -> ModelAnswer:
    """Return the answer of a model that is left before its end. Its tokens are not known."""
    partial = ChatMessage(role=ChatRole.ASSISTANT, content="".join(text))
    provider, model = (models[0].provider.name, models[0].model.name) if models else ("", "")
    return ModelAnswer(provider, model, partial, FinishReason.LENGTH, TokenUsage())


def _rename_calls(state: TurnState, answer: ModelAnswer) -> ModelAnswer:
    """Return the answer with ids of calls that lead back to this turn."""
    parts = answer.message.tool_calls
    if not parts:
        return answer
    if sum(len(part.function.arguments) for part in parts) > ARGUMENTS_CHARACTERS:
        raise ModelFailedError(f"the model wrote calls with more than {ARGUMENTS_CHARACTERS} characters of arguments")
    renamed = tuple(
        part.model_copy(update={"id": make_call_id(state.turn_id, number)})
        for number, part in enumerate(parts, state.calls + 1)
    )
    return replace(answer, message=answer.message.model_copy(update={"tool_calls": renamed}))


def _split_calls(
    state: TurnState, parts: Sequence[ToolCallPart]
) -> tuple[tuple[ToolCallPart, ...], tuple[ToolCallPart, ...]]:
    """Return the calls of our tools, and those of the caller's."""
    names = {tool.function.name for tool in state.chat.tools}
    theirs = tuple(part for part in parts if part.function.name in names)
    return tuple(part for part in parts if part not in theirs), theirs


def _finish(state: TurnState, listener: TurnListener, reason: FinishReason = FinishReason.STOP) -> TurnState:
    """Return the last state. An answer says at its end what stopped it, unless its format has no room for it."""
    text = state.text
    if state.is_formatted:
        listener.add_text(text)
    else:
        lines = [] if state.limit is None else [describe_limit(state.limit)]
        if state.unapproved:
            lines.append(describe_unapproved(state.unapproved))
        for line in lines:
            added = f"{_BETWEEN_STEPS}{line}" if text else line
            listener.add_text(added)
            text += added
    reason = FinishReason.STOP if reason is FinishReason.TOOL_CALLS else reason
    return state.model_copy(update={"text": text, "finish_reason": reason})
