"""A scripted model, tools in memory, and turns that are kept in memory."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from skillbus.agent.domain.approvals import ApproveCall
from skillbus.agent.domain.builtins.tool import TellCall
from skillbus.agent.domain.chat.approval_desk import ApprovalDesk, WaitingCall
from skillbus.agent.domain.chat.engine import EnginePorts, ReActEngine
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.agent.domain.chat.ports import CatalogueSize
from skillbus.agent.domain.chat.step_calls import StepCaller
from skillbus.agent.domain.chat.toolbox import ShownTool
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.errors import ToolUnknownError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common.tools.function_names import encode_name
from skillbus.contracts.agent.approvals import CallApproval, DecideCall
from skillbus.contracts.agent.chat import (
    CalledTool,
    Chat,
    ChatMessage,
    ChatRole,
    FinishReason,
    FunctionCall,
    FunctionDefinition,
    TokenUsage,
    ToolCallPart,
)
from skillbus.contracts.agent.tool_calls import CallTool, ToolCalled
from skillbus.contracts.agent.turns import TurnEventKind
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolReference
from skillbus.contracts.indexer.tools import ToolType
from skillbus.contracts.retriever.knowledge_search import BuildContext, ContextBuilt

TURN = "0123456789abcdef" * 2
USAGE = TokenUsage(prompt_tokens=100, completion_tokens=10, cached_tokens=50)


def say(*texts: str) -> ModelAnswer:
    """Return an answer that is text alone, which comes in these pieces."""
    message = ChatMessage(role=ChatRole.ASSISTANT, content="\0".join(texts))
    return ModelAnswer("scripted", "small", message, FinishReason.STOP, USAGE)


def ask(*calls: tuple[str, object], text: str = "") -> ModelAnswer:
    """Return an answer that calls functions by name, with arguments or with the JSON text of them."""
    parts = tuple(
        ToolCallPart(
            id=f"upstream-{number}",
            function=FunctionCall(name=name, arguments=given if isinstance(given, str) else json.dumps(given)),
        )
        for number, (name, given) in enumerate(calls)
    )
    message = ChatMessage(role=ChatRole.ASSISTANT, content=text or None, tool_calls=parts)
    return ModelAnswer("scripted", "small", message, FinishReason.TOOL_CALLS, USAGE)


ScriptedAnswer = ModelAnswer | Callable[[ModelCall], ModelAnswer]


@dataclass(slots=True)
class ScriptedModels:
    """Implements `ChatModels`: gives its answers one after the other, the last one again and again."""

    answers: list[ScriptedAnswer]
    asked: list[ModelCall] = field(default_factory=list)
    silent: asyncio.Event | None = None
    """If there is one, it is set when the model is asked, and no answer comes."""
    left: int = 0
    """Requests that were given up."""

    async def stream_answer(self, models: Sequence[ChatModel], call: ModelCall) -> AsyncGenerator[str | ModelAnswer]:
        self.asked.append(call)
        try:
            if self.silent is not None:
                self.silent.set()
                await asyncio.Event().wait()
            scripted = self.answers[min(len(self.asked), len(self.answers)) - 1]
            answer = scripted if isinstance(scripted, ModelAnswer) else scripted(call)
            pieces = (answer.message.text or "").split("\0")
            for piece in pieces:
                yield piece
            whole = answer.message.model_copy(update={"content": "".join(pieces) or None})
            yield ModelAnswer(answer.provider, answer.model, whole, answer.finish_reason, answer.usage)
        except (asyncio.CancelledError, GeneratorExit):
            self.left += 1
            raise


def make_tool(tool_id: str, description: str = "A tool.", **about: object) -> ShownTool:
    function = FunctionDefinition(
        name=encode_name(ToolReference(id=tool_id)),
        description=description,
        parameters={"type": "object", "properties": {"a": {"type": "string"}}},
    )
    return ShownTool.model_validate({"function": function, "id": tool_id, **about})


SEARCH = make_tool("builtin:search_tools", "Find tools.")
CALCULATE = make_tool("builtin:calculate", "Calculate.")
READ_RESULT = make_tool("builtin:read_result", "Read on.")
READ_SKILL = make_tool("builtin:read_skill", "Read a skill.")


@dataclass(slots=True)
class ToolsInMemory:
    """Implements `FunctionFinder`, `CallAnyTool` and `ResultStore`."""

    tools: dict[str, ShownTool] = field(
        default_factory=lambda: {tool.id: tool for tool in (SEARCH, CALCULATE, READ_RESULT)}
    )
    found: list[ShownTool] = field(default_factory=list)
    """What every search before a turn finds."""
    answers: dict[str, ToolAnswer | Exception] = field(default_factory=dict)
    """By id; the others say their arguments."""
    calls: list[CallTool] = field(default_factory=list)
    queries: list[tuple[str, int, tuple[ToolType, ...]]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    at_once: int = 0
    most_at_once: int = 0
    not_described: set[str] = field(default_factory=set)
    """Ids whose descriptions cannot be had."""
    marked: set[str] = field(default_factory=set)
    """Ids of tools that need an approval."""
    inner_calls: int = 0
    """Calls that each call makes itself, as a program does."""
    hangs: str = ""
    """Id of a tool that never answers."""

    async def find_functions(
        self, project: str, query: str, limit: int, tool_types: Sequence[ToolType]
    ) -> tuple[ShownTool, ...]:
        self.queries.append((query, limit, tuple(tool_types)))
        return tuple(self.found[:limit])

    async def describe_tools(self, project: str, ids: Sequence[str]) -> tuple[ShownTool, ...]:
        if self.not_described & {*ids}:
            raise RequestError(ErrorCode.UNAVAILABLE, "The catalogue is away.")
        return tuple(self.tools[one] for one in ids if one in self.tools)

    def get_catalogue_size(self, project: str) -> CatalogueSize | None:
        return CatalogueSize(1_000, 100_000)

    async def put(self, project: str, run_id: str, name: str, data: bytes) -> None:
        self.files[f"{project}/{run_id}/{name}"] = data

    async def call(
        self, request: CallTool, run_id: str, within_s: float, approve: ApproveCall, tell: TellCall
    ) -> ToolAnswer:
        if request.id in self.marked:
            request = await approve(request, "an operator requires it")
        self.calls.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            for number in range(self.inner_calls):
                tell(
                    CallTool(id=CALCULATE.id),
                    ToolCalled(id=CALCULATE.id, run_id=f"{number:032}", duration_ms=1.0),
                    None,
                )
            if request.id == self.hangs:
                await asyncio.Event().wait()
            if request.id not in self.tools:
                raise ToolUnknownError(f"the catalogue has no tool {request.id!r}")
            answer = self.answers.get(request.id, ToolAnswer(text=json.dumps(request.arguments)))
            if isinstance(answer, Exception):
                raise answer
            return answer
        finally:
            self.at_once -= 1


@dataclass(slots=True)
class TurnsInMemory:
    """Implements `TurnStore`."""

    kept: dict[tuple[str, str], str] = field(default_factory=dict)

    async def save_turn(self, state: TurnState) -> None:
        self.kept[state.chat.project, state.turn_id] = state.model_dump_json()

    async def load_turn(self, project: str, turn_id: str) -> TurnState | None:
        stored = self.kept.get((project, turn_id))
        return None if stored is None else TurnState.model_validate_json(stored)


@dataclass(slots=True)
class Listener:
    """Implements `TurnListener`."""

    text: list[str] = field(default_factory=list)
    calls: list[tuple[TurnEventKind, CalledTool]] = field(default_factory=list)
    approval_s: float = 600.0
    approvals: "asyncio.Queue[CallApproval]" = field(default_factory=asyncio.Queue)
    """What waits for a person."""
    ended: list[CallApproval] = field(default_factory=list)
    """What waits no longer."""
    desk: ApprovalDesk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = ApprovalDesk(self.approval_s, self._add_approval)

    def _add_approval(self, kind: TurnEventKind, approval: CallApproval) -> None:
        if kind is TurnEventKind.APPROVAL_REQUIRED:
            self.approvals.put_nowait(approval)
        else:
            self.ended.append(approval)

    @property
    def waited_s(self) -> float:
        return self.desk.waited_s

    async def ask_approval(self, call: WaitingCall) -> CallTool:
        return await self.desk.ask_approval(call)

    def decide(self, call_id: str, approved: bool, **more: object) -> str | None:
        decision = {"turn_id": TURN, "call_id": call_id, "approved": approved, **more}
        return self.desk.decide(DecideCall.model_validate(decision))

    def add_text(self, text: str) -> None:
        self.text.append(text)

    def add_call(self, kind: TurnEventKind, call: CalledTool) -> None:
        self.calls.append((kind, call))


@dataclass(slots=True)
class Bench:
    """An engine with everything around it in memory."""

    models: ScriptedModels
    tools: ToolsInMemory = field(default_factory=ToolsInMemory)
    turns: TurnsInMemory = field(default_factory=TurnsInMemory)
    listener: Listener = field(default_factory=Listener)
    knowledge: ContextBuilt | Exception | None = None
    contexts: list[BuildContext] = field(default_factory=list)

    @property
    def engine(self) -> ReActEngine:
        caller = StepCaller(self.tools.call, self.tools, self.tools)
        return ReActEngine(EnginePorts(self.models, self.tools, self.build_knowledge, self.turns, caller))

    async def build_knowledge(self, request: BuildContext) -> ContextBuilt:
        self.contexts.append(request)
        if isinstance(self.knowledge, Exception):
            raise self.knowledge
        assert self.knowledge is not None
        return self.knowledge

    async def run(self, chat: Chat, turn_id: str = TURN) -> TurnState:
        """Run a turn to its end."""
        state = await self.engine.begin_turn(chat, turn_id)
        while state.finish_reason is None:
            state = await self.engine.take_step(state, (), self.listener)
        return state


def make_chat(text: str = "What is 17 * 23?", **given: object) -> Chat:
    return Chat.model_validate({"messages": [{"role": "user", "content": text}], **given})
