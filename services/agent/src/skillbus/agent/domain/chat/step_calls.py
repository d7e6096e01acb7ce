"""Calls of tools in one step: arguments checked, limits kept, tools called at the same time, results written."""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from skillbus.agent.domain.approvals import refuse_call
from skillbus.agent.domain.chat.approval_desk import ApprovalAsker, WaitingCall, list_edits
from skillbus.agent.domain.chat.ports import CallAnyTool, FunctionFinder, ResultStore
from skillbus.agent.domain.chat.prompt import READ_RESULT, READ_SKILL, SEARCH_TOOL
from skillbus.agent.domain.chat.tool_result import ResultText, list_text, write_error, write_result
from skillbus.agent.domain.chat.toolbox import ShownTool, Toolbox
from skillbus.agent.domain.chat.turn_state import TurnState
from skillbus.agent.domain.errors import AgentError, ApprovalMissingError, ToolNotCallableError, ToolUnknownError
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.contracts.agent.approvals import ApprovalMode
from skillbus.contracts.agent.chat import CalledTool, ChatMessage, ChatRole, ToolCallPart, TurnLimit
from skillbus.contracts.agent.tool_calls import CallTool, ToolCalled
from skillbus.contracts.agent.turns import TurnEventKind
from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import check_json

CALLS_AT_ONCE: Final = 8
"""Calls of one turn that are under way at the same time."""
_TOLD_CHARACTERS: Final = 1_000
"""Longest arguments in the record of the step."""
_BEGINNING_CHARACTERS: Final = 300
"""Beginning of a result in the record of the step."""
_PROGRAM_CALLS_TOLD: Final = 200
"""Most calls of one program that the followers of the turn are told of."""
_LEAST_S: Final = 0.1

log = structlog.get_logger(__name__)


class CallListener(ApprovalAsker, Protocol):
    """Receiver of the calls of a turn, who also has those approved that need it."""

    def add_call(self, kind: TurnEventKind, call: CalledTool) -> None:
        """Take a call that begins, or is done."""


@dataclass(slots=True)
class _DoneCall:
    """A call and its result."""

    part: ToolCallPart
    record: CalledTool
    result: ResultText
    tool: ShownTool | None = None
    found: tuple[ShownTool, ...] = ()
    gone: bool = False
    """True if the tool cannot be called any more."""
    unapproved: bool = False
    """True if nobody could be asked for an approval."""


class StepCaller:
    """Calls the tools that a model asked for in one step."""

    def __init__(self, call_tool: CallAnyTool, finder: FunctionFinder, results: ResultStore) -> None:
        self._call_tool = call_tool
        self._finder = finder
        self._results = results

    async def call_tools(self, state: TurnState, parts: Sequence[ToolCallPart], listener: CallListener) -> TurnState:
        """Return the state with the results of these calls, in their order. A failed call is a result too."""
        gate, step = asyncio.Semaphore(CALLS_AT_ONCE), len(state.steps)
        counts, limit = dict(state.call_counts), state.limit
        waiting = list[_DoneCall | asyncio.Task[_DoneCall]]()
        async with asyncio.TaskGroup() as group:
            for number, part in enumerate(parts, state.calls + 1):
                key = f"{part.function.name} {_sort_arguments(part.function.arguments)}"
                counts[key] = counts.get(key, 0) + 1
                if number > state.chat.limits.calls:
                    reason = f"Not called: the turn may make {state.chat.limits.calls} calls, and has made them."
                    waiting.append(_refuse(part, reason))
                elif counts[key] > state.chat.limits.equal_calls:
                    limit = limit or TurnLimit.EQUAL_CALLS
                    reason = f"Not called: the same call was made {counts[key] - 1} times in this turn already."
                    waiting.append(_refuse(part, reason))
                else:
                    waiting.append(group.create_task(self._call(state, part, listener, gate)))
        done = [one if isinstance(one, _DoneCall) else one.result() for one in waiting]
        toolbox = _update_toolbox(state.toolbox, done, step)
        return state.model_copy(
            update={
                "added": (*state.added, *(_make_message(one) for one in done)),
                "toolbox": toolbox,
                "calls": state.calls + len(parts),
                "call_counts": counts,
                "limit": limit,
                "waited_s": listener.waited_s,
                "unapproved": (*state.unapproved, *(one.record.id for one in done if one.unapproved)),
                "steps": (
                    *state.steps[:-1],
                    state.steps[-1].model_copy(update={"calls": tuple(one.record for one in done)}),
                ),
            }
        )

    async def _call(
        self, state: TurnState, part: ToolCallPart, listener: CallListener, gate: asyncio.Semaphore
    ) -> _DoneCall:
        tool = state.toolbox.find_tool(part.function.name)
        if tool is None:
            return _refuse(part, _explain_unknown(state.toolbox, part.function.name))
        try:
            arguments = _parse_arguments(part.function.arguments)
        except ValueError as error:
            return _refuse(part, f"The arguments are not a JSON object: {error}. Write the call again.")
        told = arguments if len(part.function.arguments) <= _TOLD_CHARACTERS else {}
        record = CalledTool(call_id=part.id, id=tool.id, action=tool.action, arguments=told)
        async with gate:
            listener.add_call(TurnEventKind.CALLING, record)
            done = await self._call_known(state, part, tool, record, arguments, listener)
        listener.add_call(TurnEventKind.CALLED, done.record)
        return done

    async def _call_known(
        self,
        state: TurnState,
        part: ToolCallPart,
        tool: ShownTool,
        record: CalledTool,
        arguments: dict[str, JsonValue],
        listener: CallListener,
    ) -> _DoneCall:
        run_id, started, gone, unapproved = uuid.uuid4().hex, time.perf_counter(), False, False
        request = CallTool(
            project=state.chat.project, id=tool.id, arguments=arguments, action=tool.action, run_id=run_id
        )
        approvals = CallApprovals(request, part.id, listener, max(state.measure_time_left_s(), _LEAST_S))
        program = ProgramCallTeller(part.id, listener)
        approve = approvals.approve if state.chat.approvals is ApprovalMode.WAIT else refuse_call
        answer: ToolAnswer | None = None
        try:
            async with approvals.limit:
                answer = await self._call_tool(request, run_id, approvals.left_s, approve, program.tell)
            result = await write_result(answer, self._results, state.chat.project, run_id)
        except TimeoutError:
            result = write_error("The call was ended: the time of this turn is over.")
        except (AgentError, RequestError) as error:
            gone = isinstance(error, ToolNotCallableError | ToolUnknownError)
            unapproved = isinstance(error, ApprovalMissingError)
            result = write_error(f"Not done: {error}")
        if approvals.edits:
            result = result.model_copy(update={"text": f"{result.text}\n{approvals.edits}"})
        found = await self._find_joining(state, tool, answer, result)
        if found:
            result = result.model_copy(update={"text": f"{result.text}\n{_list_joined(found)}"})
        record = record.model_copy(
            update={
                "is_error": answer is None or answer.is_error,
                "text": result.plain[:_BEGINNING_CHARACTERS],
                "duration_ms": (time.perf_counter() - started) * 1000,
                "run_id": None if answer is None else run_id,
                "findings": result.findings,
                "program_calls": program.count,
            }
        )
        return _DoneCall(part, record, result, tool, found, gone, unapproved)

    async def _find_joining(
        self, state: TurnState, tool: ShownTool, answer: ToolAnswer | None, result: ResultText
    ) -> tuple[ShownTool, ...]:
        """Return the tools that join after a call: those that a search has found, and those that read on."""
        try:
            is_search = answer is not None and tool.id == SEARCH_TOOL
            found = await self._find_hits(state, answer) if answer is not None and is_search else ()
            readers = (READ_RESULT,) if result.is_cut else ()
            if any(one.instructions_only for one in found):
                readers = (*readers, READ_SKILL)
            if readers:
                found = (*found, *await self._finder.describe_tools(state.chat.project, readers))
        except RequestError as error:
            # The result names what was found; the model can search again.
            log.warning("tools_not_described", project=state.chat.project, code=error.code)
            return ()
        theirs = {one.function.name for one in state.chat.tools}
        return tuple(one for one in found if one.name not in theirs)

    async def _find_hits(self, state: TurnState, answer: ToolAnswer) -> tuple[ShownTool, ...]:
        """Return the tools that a search has found, as functions."""
        structured = answer.structured if isinstance(answer.structured, dict) else {}
        hits = structured.get("results")
        ids = [str(hit["id"]) for hit in hits if isinstance(hit, dict)] if isinstance(hits, list) else []
        types = state.chat.disclosure.tool_types
        if types:
            ids = [one for one in ids if one.partition(":")[0] in types]
        return await self._finder.describe_tools(state.chat.project, ids)


class ProgramCallTeller:
    """Tells the listener of a turn of the calls that the program of one call makes."""

    def __init__(self, call_id: str, listener: CallListener) -> None:
        self.count = 0
        self._call_id = call_id
        self._listener = listener

    def tell(self, call: CallTool, called: ToolCalled, error: RequestError | None) -> None:
        """Implement `TellCall`: tell the listener, as long as they are not too many."""
        self.count += 1
        if self.count > _PROGRAM_CALLS_TOLD:
            return
        is_told = len(to_json(call.arguments)) <= _TOLD_CHARACTERS
        result = ToolAnswer(content=called.content, structured=called.structured)
        record = CalledTool(
            call_id=called.run_id,
            id=call.id,
            action=call.action,
            arguments=call.arguments if is_told else {},
            is_error=called.is_error or error is not None,
            text=(list_text(result) if error is None else f"Not done: {error.message}")[:_BEGINNING_CHARACTERS],
            duration_ms=called.duration_ms,
            run_id=called.run_id if error is None else None,
            program_call_id=self._call_id,
        )
        self._listener.add_call(TurnEventKind.CALLED, record)


class CallApprovals:
    """Approvals of one call of the model, and of those that its program makes. Its time stands still meanwhile."""

    def __init__(self, call: CallTool, call_id: str, asker: ApprovalAsker, left_s: float) -> None:
        self.left_s = left_s
        self.limit = asyncio.timeout(left_s)
        self.edits = ""
        """Note for the model about changed arguments of its own call."""
        self._call = call
        self._call_id = call_id
        self._asker = asker
        self._pauses = 0

    async def approve(self, request: CallTool, reason: str) -> CallTool:
        """Implement `ApproveCall`."""
        is_own = request.run_id == self._call.run_id
        call_id = self._call_id if is_own else request.run_id or uuid.uuid4().hex
        waiting = WaitingCall(request, call_id, reason, None if is_own else self._call_id)
        self._pause()
        try:
            approved = await self._asker.ask_approval(waiting)
        finally:
            self._go_on()
        if is_own:
            self.edits = list_edits(request.arguments, approved.arguments)
        return approved

    def _pause(self) -> None:
        self._pauses += 1
        until = self.limit.when()
        if self._pauses == 1 and until is not None:
            self.left_s = until - asyncio.get_running_loop().time()
            self.limit.reschedule(None)

    def _go_on(self) -> None:
        self._pauses -= 1
        if self._pauses == 0 and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self.left_s)


def _update_toolbox(toolbox: Toolbox, done: Sequence[_DoneCall], step: int) -> Toolbox:
    """Return the toolbox with what was called and found, and without what is gone."""
    for one in done:
        if one.tool is not None:
            toolbox = toolbox.drop_tool(one.tool.name) if one.gone else toolbox.add_tools((one.tool,), step)
        toolbox = toolbox.add_tools(one.found, step)
    return toolbox


def _list_joined(found: Sequence[ShownTool]) -> str:
    names = [tool.name for tool in found if not tool.instructions_only]
    skills = [tool.id.partition(":")[2] for tool in found if tool.instructions_only]
    lines = [f"You can call now: {', '.join(names)}."] if names else []
    if skills:
        lines.append(f"Skills to read with builtin__read_skill: {', '.join(skills)}.")
    return "\n".join(lines)


def _refuse(part: ToolCallPart, reason: str) -> _DoneCall:
    record = CalledTool(call_id=part.id, id=part.function.name, is_error=True, text=reason)
    return _DoneCall(part, record, write_error(reason))


def _explain_unknown(toolbox: Toolbox, name: str) -> str:
    near = toolbox.list_near_names(name)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    can_search = any(tool.id == SEARCH_TOOL for tool in toolbox.shown)
    way_out = " Find tools with builtin__search_tools." if can_search else ""
    return f"There is no tool {name[:100]!r}.{hint}{way_out}"


def _make_message(done: _DoneCall) -> ChatMessage:
    return ChatMessage(role=ChatRole.TOOL, content=done.result.text, tool_call_id=done.part.id)


def _parse_arguments(text: str) -> dict[str, JsonValue]:
    """Parse arguments. Raises ValueError."""
    parsed = from_json(text, allow_inf_nan=False) if text.strip() else {}
    if not isinstance(parsed, dict):
        raise ValueError(f"got {type(parsed).__name__}")  # noqa: TRY004 - the caller tells the model either way
    check_json(parsed)
    return parsed


def _sort_arguments(text: str) -> str:
    """Return arguments in one form, so that equal calls are recognised."""
    try:
        return to_json(json.dumps(_parse_arguments(text), sort_keys=True)).decode()
    except (ValueError, RecursionError):
        return text
