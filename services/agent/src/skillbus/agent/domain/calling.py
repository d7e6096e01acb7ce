"""A tool called by its id, if it may be called."""

import asyncio
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue
from skillbus.agent.domain.answer import ToolAnswer
from skillbus.agent.domain.arguments import check_arguments
from skillbus.agent.domain.builtins_port import Builtins
from skillbus.agent.domain.registered import ServerKey

from skillbus.agent.domain.errors import CallTimedOutError, ToolExternalError, ToolNotCallableError, ToolUnknownError
from skillbus.agent.domain.ports import Catalogue
from skillbus.agent.domain.servers import Servers
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, CatalogueTool, ToolState

BUILTIN_PREFIX: Final = "builtin:"
_SKILL_PREFIX: Final = "skill:"


class Caller:
    """Calls MCP tools and builtin ones, as the catalogue has accepted them."""

    def __init__(self, catalogue: Catalogue, servers: Servers, builtins: Builtins) -> None:
        self._catalogue = catalogue
        self._servers = servers
        self._builtins = builtins

    async def call(self, project: str, tool_id: str, arguments: Mapping[str, JsonValue], within_s: float) -> ToolAnswer:
        """Call a tool.

        Raises:
            ToolUnknownError, ServerUnknownError: there is no such tool or server.
            ToolNotCallableError: it is in quarantine or disabled.
            ToolExternalError: others provide it, and skillbus cannot call it.
            ArgumentsInvalidError, SchemaUnusableError: the arguments do not fit, or cannot be checked.
            ServerFailedError, CallTimedOutError: its server did not do its part.
            RequestError: the catalogue, or a service that a builtin needs, did not.
        """
        if tool_id.startswith(BUILTIN_PREFIX):
            return await self._call_builtin(project, tool_id.removeprefix(BUILTIN_PREFIX), arguments, within_s)
        server, slash, name = tool_id.removeprefix(MCP_SOURCE_PREFIX).partition("/")
        if not tool_id.startswith(MCP_SOURCE_PREFIX) or not slash:
            raise await self._explain_refusal(project, tool_id)
        known = await self._catalogue.get(project, tool_id)
        if known is None:
            raise ToolUnknownError(f"the catalogue has no tool {tool_id[:100]}: list the tools of {server[:64]}")
        _callable(known)
        await asyncio.to_thread(check_arguments, known.tool.parameters or {}, arguments)
        follower = await self._servers.follower(ServerKey(project, server))
        session = await follower.session(within_s)
        return await session.call(name, arguments, min(within_s, follower.server.registration.timeout_s))

    async def _explain_refusal(self, project: str, tool_id: str) -> ToolUnknownError | ToolExternalError:
        """Return the error for a tool that is neither of an MCP server nor builtin."""
        if tool_id.startswith(_SKILL_PREFIX):
            return ToolUnknownError(f"{tool_id[:100]} is a skill: run it with run_skill of the sandbox")
        known = await self._catalogue.get(project, tool_id)
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
        described = next((tool for tool in self._builtins.describe() if tool.id == BUILTIN_PREFIX + name), None)
        if described is None:
            raise ToolUnknownError(f"there is no builtin tool {name[:100]!r}: list_builtins has those that there are")
        known = await self._catalogue.get(project, described.id)
        if known is not None:
            _callable(known)
        await asyncio.to_thread(check_arguments, described.parameters or {}, arguments)
        try:
            return await _within(self._builtins, project, name, arguments, within_s)
        except TimeoutError:
            raise CallTimedOutError(f"the builtin tool {name} was not done within {within_s:.1f} s") from None


async def _within(
    builtins: Builtins, project: str, name: str, arguments: Mapping[str, JsonValue], within_s: float
) -> ToolAnswer:
    async with asyncio.timeout(within_s):
        return await builtins.call(project, name, arguments)


def _callable(known: CatalogueTool) -> None:
    if known.state is ToolState.DISABLED:
        raise ToolNotCallableError(f"{known.tool.id} is disabled: an operator can enable it")
    if known.state is ToolState.QUARANTINED:
        raise ToolNotCallableError(f"{known.tool.id} waits in quarantine: an operator has to accept it first")
