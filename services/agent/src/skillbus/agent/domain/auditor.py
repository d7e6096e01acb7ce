"""Comparison of the catalogue with the tools that servers and builtins offer."""

import asyncio
from dataclasses import dataclass
from typing import Final

from skillbus.agent.domain.builtins.publisher import BuiltinPublisher
from skillbus.agent.domain.builtins.tool import BuiltinTools
from skillbus.agent.domain.ports import AgentCatalogue
from skillbus.agent.domain.servers.follower import ServerFollower
from skillbus.agent.domain.servers.registration import ServerKey
from skillbus.agent.domain.servers.registry import ServerRegistry
from skillbus.contracts.agent.tool_calls import CallableAudited
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, AuditDifference, ToolState

_IDS_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Offered and catalogued tools at one moment."""

    callable: frozenset[str]
    catalogued: dict[str, str]
    """Sources of the catalogued tools, by id."""
    held: frozenset[str]
    """Catalogued tools that are disabled or in quarantine. They are not called, so it does not matter if they exist."""
    silent: tuple[str, ...]
    """Servers that did not answer."""

    def list_not_callable(self) -> list[str]:
        silent = {f"{MCP_SOURCE_PREFIX}{name}" for name in self.silent}
        return sorted(
            id_
            for id_, source in self.catalogued.items()
            if id_ not in self.callable and id_ not in self.held and source not in silent
        )

    def list_not_catalogued(self) -> list[str]:
        return sorted(self.callable - self.catalogued.keys())


class CallableAuditor:
    """Compares the catalogue with what can be called, and repairs it."""

    def __init__(
        self, catalogue: AgentCatalogue, servers: ServerRegistry, builtins: BuiltinTools, publisher: BuiltinPublisher
    ) -> None:
        self._catalogue = catalogue
        self._servers = servers
        self._builtins = builtins
        self._publisher = publisher

    async def audit_project(self, project: str, within_s: float, *, fix: bool) -> CallableAudited:
        """List every server again and compare. With `fix`, repair the catalogue. Raises RequestError."""
        before = await self._take_snapshot(project, within_s / 3)
        after = before
        if fix and (before.list_not_callable() or before.list_not_catalogued()):
            await self._repair(project, before, within_s / 3)
            after = await self._take_snapshot(project, within_s / 3)
        differences = (
            _describe_difference("not_callable", project, before.list_not_callable(), after.list_not_callable()),
            _describe_difference("not_catalogued", project, before.list_not_catalogued(), after.list_not_catalogued()),
        )
        return CallableAudited(
            callable=len(after.callable),
            catalogued=len(after.catalogued),
            silent=after.silent,
            differences=tuple(difference for difference in differences if difference.count),
        )

    async def _take_snapshot(self, project: str, within_s: float) -> _Snapshot:
        tools = await self._catalogue.list_tools(project)
        followers = await self._find_followers(project)
        offered = await asyncio.gather(*(follower.list_offered(within_s) for follower in followers))
        builtins = frozenset(tool.id for tool in self._builtins.describe())
        return _Snapshot(
            callable=builtins.union(*(ids for ids in offered if ids is not None)),
            catalogued={tool.id: tool.source for tool in tools},
            held=frozenset(tool.id for tool in tools if tool.state is not ToolState.ACTIVE),
            silent=tuple(one.server.key.name for one, ids in zip(followers, offered, strict=True) if ids is None),
        )

    async def _find_followers(self, project: str) -> list[ServerFollower]:
        servers = await self._servers.list_servers(project)
        return [await self._servers.find_follower(server.key) for server in servers]

    async def _repair(self, project: str, snapshot: _Snapshot, within_s: float) -> None:
        await self._publisher.sync_project(project)
        followers = await self._find_followers(project)
        await asyncio.gather(*(follower.relist(within_s) for follower in followers))
        registered = {follower.server.key for follower in followers}
        for source in set(snapshot.catalogued.values()):
            name = source.removeprefix(MCP_SOURCE_PREFIX)
            if source.startswith(MCP_SOURCE_PREFIX) and ServerKey(project, name) not in registered:
                await self._catalogue.remove_tools(project, source)


def _describe_difference(kind: str, project: str, before: list[str], after: list[str]) -> AuditDifference:
    return AuditDifference(
        kind=kind,
        ids=tuple(f"{project}/{id_}" for id_ in before[:_IDS_LISTED]),
        count=len(before),
        fixed=len(set(before) - set(after)),
    )
