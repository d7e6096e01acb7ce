"""Calls tools by their ids, if the catalogue allows it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.agent.domain.builtins.tool import ID_PREFIX, BuiltinTools
from skillbus.agent.domain.errors import (
    ArgumentsInvalidError,
    CallTimedOutError,
    SchemaUnusableError,
    ToolExternalError,
    ToolNotCallableError,
    ToolUnknownError,
)
from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.agent.domain.servers.registration import ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.agent.domain.tool_answer import ToolAnswer
from skillbus.common import json_schema
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, CatalogueTool, ToolState

_SKILL_PREFIX: Final = "skill:"


class ToolCaller:
    """Calls MCP tools and builtin tools as the catalogue has accepted them."""

    def __init__(self, catalogue: AgentCatalogue, servers: ServerRegistry, builtins: BuiltinTools) -> None:
        self._catalogue = catalogue
        self._servers = servers
        self._builtins = builtins

    async def call(self, project: str, tool_id: str, arguments: Mapping[str, JsonValue], within_s: float) -> ToolAnswer:
        """Call a tool.

        Raises:
            ToolUnknownError, ServerUnknownError: There is no such tool or server.
            ToolNotCallableError: The tool is in quarantine or disabled.
            ToolExternalError: The tool belongs to another system.
            ArgumentsInvalidError, SchemaUnusableError: The arguments do not fit, or cannot be checked.
            ServerFailedError, CallTimedOutError: The server failed, or was too slow.
            RequestError: The catalogue, or a service that a builtin tool needs, failed.
        """
        if tool_id.startswith(ID_PREFIX):
            return await self._call_builtin(project, tool_id.removeprefix(ID_PREFIX), arguments, within_s)
        server, slash, name = tool_id.removeprefix(MCP_SOURCE_PREFIX).partition("/")
        if not tool_id.startswith(MCP_SOURCE_PREFIX) or not slash:
            raise await self._explain_refusal(project, tool_id)
        known = await self._catalogue.get_tool(project, tool_id)
        if known is None:
            raise ToolUnknownError(f"the catalogue has no tool {tool_id[:100]}: list the tools of {server[:64]}")
        _check_state(known)
        await asyncio.to_thread(_check_arguments, known.tool.parameters or {}, arguments)
        follower = await self._servers.find_follower(ServerKey(project, server))
        session = await follower.get_session(within_s)
        return await session.call(name, arguments, min(within_s, follower.server.registration.timeout_s))

    async def _explain_refusal(self, project: str, tool_id: str) -> ToolUnknownError | ToolExternalError:
        """Return the error for a tool that is neither of an MCP server nor builtin."""
        if tool_id.startswith(_SKILL_PREFIX):
            return ToolUnknownError(f"{tool_id[:100]} is a skill: run it with run_skill of the sandbox")
        known = await self._catalogue.get_tool(project, tool_id)
        if known is None:
            return ToolUnknownError(f"the catalogue has no tool {tool_id[:100]!r}")
        provider = known.tool.provider or known.tool.source
        message = (
            f"{tool_id[:100]} is external: skillbus finds it and cannot call it; call it at its provider, {provider}"
        )
        return ToolExternalError(message, provided_by=provider)

    async def _call_builtin(
        self, project: str, name: str, arguments: Mapping[str, JsonValue], within_s: float
    ) -> ToolAnswer:
        tool = self._builtins.get_tool(name)
        known = await self._catalogue.get_tool(project, tool.description.id)
        if known is not None:
            _check_state(known)
        await asyncio.to_thread(_check_arguments, tool.description.parameters or {}, arguments)
        try:
            async with asyncio.timeout(within_s):
                return await tool.call(project, arguments)
        except TimeoutError:
            raise CallTimedOutError(f"the builtin tool {name} did not finish within {within_s:.1f} s") from None


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
