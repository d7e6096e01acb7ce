"""Turns of chats on a running system: which tools are shown before the first step, and which are called.

Each query is a turn of the agent's engine with its own search and disclosure. The model is a script that knows the
right tools: of the functions that it is shown it calls those, and never searches. So it calls all that a model could
choose rightly from what is shown, and no more. Calls are recorded and go nowhere.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from skillbus.agent.adapters.bus_functions import BusFunctions
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.chat.approval_desk import WaitingCall
from skillbus.agent.domain.chat.engine import EnginePorts, ReActEngine
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.agent.domain.chat.step_calls import StepCaller
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common.bus.caller import Caller
from skillbus.common.tools.function_names import encode_name
from skillbus.contracts.agent.chat import (
    CalledTool,
    Chat,
    ChatMessage,
    ChatRole,
    DisclosureOptions,
    FinishReason,
    FunctionCall,
    TokenUsage,
    ToolCallPart,
)
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.agent.turns import TurnEventKind
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.http import ToolReference
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt
from skillbus.evaluation.agent_report import AgentAnswers
from skillbus.evaluation.answers import PROJECT, Progress, import_tools, rank_by_words, send_concurrently
from skillbus.evaluation.cases import Cases
from skillbus.evaluation.measures import DEPTH

SOURCE: Final = "mcp:evaluation"
"""Source of the catalogue. Only tools of skillbus are shown in a chat, and those of an MCP server are."""


async def collect_agent_answers(caller: Caller, cases: Cases, progress: Progress) -> AgentAnswers:
    """Import the catalogue as tools of an MCP server, and take a turn for each request.

    Raises:
        EvaluationError: the catalogue refused a tool, or not all tools are indexed.
        RequestError: a service refused a request, or did not answer.
    """
    began = time.perf_counter()
    ids = {tool.id: f"{SOURCE}/{row}" for row, tool in enumerate(cases.tools)}
    names = {own: tool_id for tool_id, own in ids.items()}
    await import_tools(caller, [tool.model_copy(update={"id": ids[tool.id]}) for tool in cases.tools], progress, SOURCE)
    imported = time.perf_counter()
    finder = BusFunctions(caller, BuiltinTools(()))

    async def take_turn(row: int) -> _Turn:
        case = cases.cases[row]
        return await _take_turn(finder, case.query, [ids[tool_id] for tool_id in case.relevant])

    turns = await send_concurrently(len(cases.cases), take_turn, "Taking turns", progress)
    return AgentAnswers(
        shown=[[names[own] for own in turn.shown] for turn in turns],
        called=[[names[own] for own in turn.called] for turn in turns],
        bm25=list(rank_by_words(cases)),
        import_s=imported - began,
        ask_s=time.perf_counter() - imported,
    )


@dataclass(frozen=True, slots=True)
class _Turn:
    shown: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)


async def _take_turn(finder: BusFunctions, query: str, right: Sequence[str]) -> _Turn:
    turn = _Turn()

    async def record_call(request: CallTool, *_: object) -> ToolAnswer:
        turn.called.append(request.id)
        return ToolAnswer(text="done")

    silent = _Silence()
    engine = ReActEngine(
        EnginePorts(
            models=_KnowingModel(right),
            finder=finder,
            build_knowledge=silent.build_knowledge,
            turns=silent,
            caller=StepCaller(record_call, finder, silent),
        )
    )
    asked = ChatMessage(role=ChatRole.USER, content=query)
    chat = Chat(project=PROJECT, messages=(asked,), disclosure=DisclosureOptions(top_k=DEPTH))
    state = await engine.begin_turn(chat, uuid4().hex)
    turn.shown.extend(tool.id for tool in state.toolbox.shown)
    while state.finish_reason is None:
        state = await engine.take_step(state, (), silent)
    return turn


class _KnowingModel:
    """Model that calls the right ones of the functions that it is shown, all in its first step."""

    def __init__(self, right: Sequence[str]) -> None:
        self._right = {encode_name(ToolReference(id=tool_id)) for tool_id in right}

    async def stream_answer(self, _: Sequence[ChatModel], call: ModelCall) -> AsyncGenerator[str | ModelAnswer]:
        """Implement `ChatModels`."""
        is_first = call.messages[-1].role is ChatRole.USER
        chosen = [tool.name for tool in call.tools if is_first and tool.name in self._right]
        parts = tuple(
            ToolCallPart(id=f"call_{name}", function=FunctionCall(name=name, arguments="{}")) for name in chosen
        )
        reason = FinishReason.TOOL_CALLS if parts else FinishReason.STOP
        message = ChatMessage(role=ChatRole.ASSISTANT, content="" if parts else "Done.", tool_calls=parts)
        yield ModelAnswer("script", "script", message, reason, TokenUsage())


class _Silence:
    """Ports of the engine that these turns do not use."""

    async def build_knowledge(self, _: BuildContext) -> ContextBuilt:
        raise NotImplementedError

    @property
    def waited_s(self) -> float:
        """Implement `TurnListener`."""
        return 0.0

    async def ask_approval(self, call: WaitingCall) -> CallTool:
        """Implement `TurnListener`."""
        raise NotImplementedError

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        """Implement `ResultStore`."""

    async def save_turn(self, state: TurnState) -> None:
        """Implement `TurnStore`."""

    async def load_turn(self, project: str, turn_id: str) -> TurnState | None:
        """Implement `TurnStore`."""

    def add_text(self, text: str) -> None:
        """Implement `TurnListener`."""

    def add_call(self, kind: TurnEventKind, call: CalledTool) -> None:
        """Implement `TurnListener`."""
