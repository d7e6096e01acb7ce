"""Calls tools of every type by their ids, if the catalogue allows it."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog
from pydantic import JsonValue, ValidationError

from skillbus.agent.domain.approvals import ApproveCall, explain_need, refuse_call
from skillbus.agent.domain.builtins.tool import ID_PREFIX, BuiltinTool, BuiltinTools, OuterCall, TellCall
from skillbus.agent.domain.errors import (
    ArgumentsInvalidError,
    CallDeniedError,
    CallTimedOutError,
    SchemaUnusableError,
    ToolExternalError,
    ToolNotCallableError,
    ToolUnknownError,
)
from skillbus.agent.domain.ports import AgentCatalogue, CallFiles, CallLines, SkillRuns
from skillbus.agent.domain.servers.registration import ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_answer import (
    TEXT_BYTES,
    AnswerFile,
    ToolAnswer,
    bound_answer,
    make_skill_answer,
    split_files,
)
from skillbus.common import json_schema
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, CatalogueTool, ToolState
from skillbus.contracts.sandbox.skill_runs import RunSkill

_SKILL_PREFIX: Final = "skill:"
ResultT = TypeVar("ResultT")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """Calls builtin tools in process, tools of MCP servers over their sessions, and skills in the sandbox."""

    catalogue: AgentCatalogue
    servers: ServerRegistry
    builtins: BuiltinTools
    skills: SkillRuns
    files: CallFiles
    lines: CallLines

    async def call(
        self,
        request: CallTool,
        run_id: str,
        within_s: float,
        approve: ApproveCall | None = None,
        tell_call: TellCall | None = None,
    ) -> ToolAnswer:
        """Call a tool. A call with a `run_id` of its caller can be cancelled; then the answer is an error of the tool.

        `approve` asks a person, if the tool needs that. Without it the caller is a person, who need not be asked.
        `within_s` begins after the approval. `tell_call` is told of the calls that a program makes.

        Raises:
            ToolUnknownError, ServerUnknownError: There is no such tool or server.
            ToolNotCallableError: The tool is in quarantine or disabled.
            ApprovalMissingError, CallDeniedError: The call was not approved.
            ToolExternalError: The tool belongs to another system.
            ArgumentsInvalidError, SchemaUnusableError: The arguments do not fit, or cannot be checked.
            ServerFailedError, CallTimedOutError: The server failed, or was too slow.
            RequestError: The catalogue, the sandbox, or a service that a builtin tool needs, failed or refused.
        """
        if request.run_id is None:
            return await self.call_until(request, run_id, within_s, asyncio.Event(), approve, tell_call)
        async with self.lines.listen(run_id, request.project) as cancelled:
            return await self.call_until(request, run_id, within_s, cancelled, approve, tell_call)

    async def call_until(
        self,
        request: CallTool,
        run_id: str,
        within_s: float,
        cancelled: asyncio.Event,
        approve: ApproveCall | None = None,
        tell_call: TellCall | None = None,
    ) -> ToolAnswer:
        """Call a tool until `cancelled` is set. Raises as `call`."""
        if request.id.startswith(_SKILL_PREFIX):
            if approve is not None:
                known = await self.catalogue.get_tool(request.project, request.id)
                request = await self._get_approval(known, request, cancelled, approve)
            return await self._run_skill(request, run_id, within_s, cancelled)
        if request.action is not None or request.files:
            raise ArgumentsInvalidError("only skills take an action and files", "$.action")
        if request.id.startswith(ID_PREFIX):
            return await self._call_builtin(request, run_id, within_s, cancelled, approve, tell_call)
        within_s = min(within_s, request.timeout_s or within_s)
        if request.id.startswith(MCP_SOURCE_PREFIX) and "/" in request.id:
            return await _race(self._call_server(request, run_id, within_s, cancelled, approve), cancelled)
        raise await self._explain_refusal(request.project, request.id)

    async def _run_skill(self, request: CallTool, run_id: str, within_s: float, cancelled: asyncio.Event) -> ToolAnswer:
        try:
            run = RunSkill(
                project=request.project,
                name=request.id.removeprefix(_SKILL_PREFIX),
                action=request.action,
                args=request.arguments,
                files=request.files,
                timeout_s=request.timeout_s,
                run_id=run_id,
                run_id_is_new=request.run_id is None,
                stream=request.stream,
            )
        except ValidationError as error:  # all else was validated with the request
            raise ToolUnknownError(f"{request.id[:100]!r} is not the id of a skill") from error
        ran = await self.skills.run(run, within_s, cancelled)
        stdout = await self.files.read_start(ran.stdout, TEXT_BYTES)
        stderr = await self.files.read_start(ran.stderr, TEXT_BYTES)
        return make_skill_answer(ran, stdout, stderr)

    async def _get_approval(
        self, known: CatalogueTool | None, request: CallTool, cancelled: asyncio.Event, approve: ApproveCall | None
    ) -> CallTool:
        """Return the call as it may be made.

        Raises:
            ApprovalMissingError, CallDeniedError: It was not approved, or cancelled before.
            ToolNotCallableError: The tool changed while the call waited.
        """
        if known is None or not known.requires_approval or approve is None:
            return request
        approved = await _finish_unless(cancelled, approve(request, explain_need(known)))
        if approved is None:
            raise CallDeniedError("it was cancelled before a person approved it")
        now = await self.catalogue.get_tool(request.project, request.id)
        if now is None or now.digest != known.digest:
            raise ToolNotCallableError(f"{request.id[:100]} changed while its call waited for an approval")
        _check_state(now)
        return approved

    async def _call_server(
        self,
        request: CallTool,
        run_id: str,
        within_s: float,
        cancelled: asyncio.Event,
        approve: ApproveCall | None,
    ) -> ToolAnswer:
        server, _, name = request.id.removeprefix(MCP_SOURCE_PREFIX).partition("/")
        known = await self.catalogue.get_tool(request.project, request.id)
        if known is None:
            raise ToolUnknownError(f"the catalogue has no tool {request.id[:100]}: list the tools of {server[:64]}")
        _check_state(known)
        await asyncio.to_thread(_check_arguments, known.tool.parameters or {}, request.arguments)
        approved = await self._get_approval(known, request, cancelled, approve)
        if approved.arguments != request.arguments:
            await asyncio.to_thread(_check_arguments, known.tool.parameters or {}, approved.arguments)
        follower = await self.servers.find_follower(ServerKey(request.project, server))
        session = await follower.get_session(within_s)
        answer = await session.call(name, approved.arguments, min(within_s, follower.server.registration.timeout_s))
        return await self._store_files(answer, request.project, run_id)

    async def _store_files(self, answer: ToolAnswer, project: str, run_id: str) -> ToolAnswer:
        """Return the answer with links in the place of its files, and bounded."""
        parts, left_out = await asyncio.to_thread(split_files, answer.parts)
        content = list[JsonValue]()
        for part in parts:
            if not isinstance(part, AnswerFile):
                content.append(part)
                continue
            try:
                await self.files.put(project, run_id, part.name, part.data)
            except RequestError as error:
                # The call was done, and its other parts may say what it did.
                log.warning("call_file_not_stored", run_id=run_id, name=part.name, code=error.code)
                left_out = True
            else:
                content.append(part.make_link(run_id))
        bounded = bound_answer(content, answer.structured, is_error=answer.is_error)
        return ToolAnswer(
            content=bounded.content,
            structured=bounded.structured,
            is_error=answer.is_error,
            truncated=bounded.truncated or left_out,
        )

    async def _explain_refusal(self, project: str, tool_id: str) -> ToolUnknownError | ToolExternalError:
        """Return the error for a tool that skillbus does not provide."""
        known = await self.catalogue.get_tool(project, tool_id)
        if known is None:
            return ToolUnknownError(f"the catalogue has no tool {tool_id[:100]!r}")
        provider, source = known.tool.provider, known.tool.source
        kind, place = "an external tool", f"at its provider, {provider}"
        if not provider:
            kind, place = f"an external tool of source {source}", "yourself"
        message = f"{tool_id[:100]} is {kind}, which skillbus only finds: call it {place}"
        return ToolExternalError(message, provided_by=provider or source)

    async def _call_builtin(
        self,
        request: CallTool,
        run_id: str,
        within_s: float,
        cancelled: asyncio.Event,
        approve: ApproveCall | None,
        tell_call: TellCall | None,
    ) -> ToolAnswer:
        name = request.id.removeprefix(ID_PREFIX)
        tool = self.builtins.get_tool(name)
        known = await self.catalogue.get_tool(request.project, tool.description.id)
        if known is not None:
            _check_state(known)
            request = await self._get_approval(known, request, cancelled, approve)
        if tool.call_others is None:
            return await _race(self._call_within(tool, request, within_s), cancelled)
        call_tool = partial(self.call_until, approve=approve or refuse_call)
        outer = OuterCall(
            request.project, run_id, request.timeout_s, within_s, cancelled, request.stream, call_tool, tell_call
        )
        return await tool.call_others(outer, request.arguments)

    @staticmethod
    async def _call_within(tool: BuiltinTool, request: CallTool, within_s: float) -> ToolAnswer:
        within_s = min(within_s, request.timeout_s or within_s)
        try:
            async with asyncio.timeout(within_s):
                return await tool.call(request.project, request.arguments)
        except TimeoutError:
            name = tool.description.name
            raise CallTimedOutError(f"the builtin tool {name} did not finish within {within_s:.1f} s") from None


async def _race(work: Coroutine[object, object, ToolAnswer], cancelled: asyncio.Event) -> ToolAnswer:
    """Return the result of the work, or an answer that says that it was cancelled."""
    answer = await _finish_unless(cancelled, work)
    return answer or ToolAnswer(text="the call was cancelled; it may or may not have been done", is_error=True)


async def _finish_unless(cancelled: asyncio.Event, work: Awaitable[ResultT]) -> ResultT | None:
    """Return the result of the work, or None if it was cancelled before."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})


def _check_arguments(schema: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]) -> None:
    """Check arguments against a schema. It may take seconds: call it in a thread."""
    try:
        json_schema.check_args(schema, arguments)
    except json_schema.MisfitError as error:
        raise ArgumentsInvalidError(error.problem, error.path) from error
    except json_schema.UnusableSchemaError as error:
        raise SchemaUnusableError(str(error)) from error


def _check_state(known: CatalogueTool) -> None:
    if known.state is ToolState.DISABLED:
        raise ToolNotCallableError(f"{known.tool.id} is disabled: an operator can enable it")
    if known.state is ToolState.QUARANTINED:
        raise ToolNotCallableError(f"{known.tool.id} is in quarantine: an operator has to accept it first")
