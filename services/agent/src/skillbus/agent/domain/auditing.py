"""What the catalogue has, against what servers and builtins offer."""

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from skillbus.agent.domain.builtins_port import Builtins
from skillbus.agent.domain.following import Follower
from skillbus.agent.domain.ports import Catalogue
from skillbus.agent.domain.registered import ServerKey
from skillbus.agent.domain.servers import Servers
from skillbus.contracts.agent.tool_calls import CallableAudited
from skillbus.contracts.indexer.tools import MCP_SOURCE_PREFIX, AuditDifference, ToolState

_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class _Sight:
    """What is there at one moment."""

    callable: frozenset[str]
    catalogued: dict[str, str]
    """Sources by id."""
    held: frozenset[str]
    """Those of them that are disabled or in quarantine: they are not called, whether they are offered or not."""
    silent: tuple[str, ...]

    def not_callable(self) -> list[str]:
        sources = {f"{MCP_SOURCE_PREFIX}{name}" for name in self.silent}
        return sorted(
            id_
            for id_, source in self.catalogued.items()
            if id_ not in self.callable and id_ not in self.held and source not in sources
        )

    def not_catalogued(self) -> list[str]:
        return sorted(self.callable - self.catalogued.keys())


class CataloguedBuiltins(Protocol):
    """The builtin tools in the catalogue."""

    async def sync(self, project: str) -> None:
        """Bring the project's catalogue up to date. Raises RequestError."""
        ...


class Auditor:
    """Compares, and mends."""

    def __init__(self, catalogue: Catalogue, servers: Servers, builtins: Builtins, kept: CataloguedBuiltins) -> None:
        self._catalogue = catalogue
        self._servers = servers
        self._builtins = builtins
        self._kept = kept

    async def audit(self, project: str, within_s: float, *, fix: bool) -> CallableAudited:
        """List every server again and compare; with `fix`, have the catalogue as they are. Raises RequestError."""
        before = await self._sight(project, within_s / 3)
        after = before
        if fix and (before.not_callable() or before.not_catalogued()):
            await self._mend(project, before, within_s / 3)
            after = await self._sight(project, within_s / 3)
        found = (
            _difference("not_callable", project, before.not_callable(), after.not_callable()),
            _difference("not_catalogued", project, before.not_catalogued(), after.not_catalogued()),
        )
        return CallableAudited(
            callable=len(after.callable),
            catalogued=len(after.catalogued),
            silent=after.silent,
            differences=tuple(difference for difference in found if difference.count),
        )

    async def _sight(self, project: str, within_s: float) -> _Sight:
        tools = await self._catalogue.tools(project)
        followers = await self._followers(project)
        offered = await asyncio.gather(*(follower.offered(within_s) for follower in followers))
        builtins = frozenset(tool.id for tool in self._builtins.describe())
        return _Sight(
            callable=builtins.union(*(ids for ids in offered if ids is not None)),
            catalogued={tool.id: tool.source for tool in tools},
            held=frozenset(tool.id for tool in tools if tool.state is not ToolState.ACTIVE),
            silent=tuple(one.server.key.name for one, ids in zip(followers, offered, strict=True) if ids is None),
        )

    async def _followers(self, project: str) -> list[Follower]:
        return [await self._servers.follower(server.key) for server in await self._servers.all_of(project)]

    async def _mend(self, project: str, sight: _Sight, within_s: float) -> None:
        await self._kept.sync(project)
        followers = await self._followers(project)
        await asyncio.gather(*(follower.look(within_s) for follower in followers))
        registered = {follower.server.key for follower in followers}
        for source in set(sight.catalogued.values()):
            name = source.removeprefix(MCP_SOURCE_PREFIX)
            if source.startswith(MCP_SOURCE_PREFIX) and ServerKey(project, name) not in registered:
                await self._catalogue.remove(project, source)


def _difference(kind: str, project: str, before: list[str], after: list[str]) -> AuditDifference:
    return AuditDifference(
        kind=kind,
        ids=tuple(f"{project}/{id_}" for id_ in before[:_SHOWN]),
        count=len(before),
        fixed=len(set(before) - set(after)),
    )
