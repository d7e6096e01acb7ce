"""Whether the whole can do its work."""

import asyncio
from collections.abc import Mapping
from typing import Final

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.endpoint import Endpoint, Health, HealthCheck
from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import SystemStatus
from skillbus.contracts.indexer.skills import GET_STATUS, IndexerStatus
from skillbus.contracts.message import Empty
from skillbus.gateway.domain.ports import BusCaller, Connection

SERVICE: Final = "gateway"
_SERVICES: Final[Mapping[str, Endpoint[Empty, Health]]] = {
    embedder.SERVICE: embedder.HEALTH,
    indexer.SERVICE: indexer.HEALTH,
    retriever.SERVICE: retriever.HEALTH,
    sandbox.SERVICE: sandbox.HEALTH,
    agent.SERVICE: agent.HEALTH,
    learner.SERVICE: learner.HEALTH,
}
_MAY_BE_UNREADY: Final = frozenset({sandbox.SERVICE})
"""A machine that cannot isolate runs nothing, but installs and finds: the whole is ready, and says what is not.

A sandbox that does not answer at all is another matter: a service is missing.
"""
_MAY_BE_AWAY: Final[Mapping[str, str]] = {
    agent.SERVICE: "tools are found, but MCP and builtin ones cannot be called, and MCP servers are not followed",
    learner.SERVICE: "tools are found and skills run, but knowledge is neither kept nor found",
}
"""What does not work without a service, where the rest does: the whole is ready, and says so."""


class Readiness:
    """Asks every service, at the same time."""

    def __init__(self, caller: BusCaller, connection: Connection, *, timeout_s: float) -> None:
        self._caller = caller
        self._connection = connection
        self._timeout_s = timeout_s

    async def health(self) -> Health:
        """Ready when NATS is connected and every service that is needed says that it is."""
        asked = await asyncio.gather(*(self._ask(service, endpoint) for service, endpoint in _SERVICES.items()))
        connected = self._connection.is_connected
        nats = HealthCheck(name="nats", ready=connected, detail="" if connected else "not connected")
        ready = connected and all(good for _, good in asked)
        return Health(service=SERVICE, ready=ready, checks=(nats, *(check for check, _ in asked)))

    async def status(self) -> SystemStatus:
        """The same, and what the indexer holds."""
        health, held = await asyncio.gather(self.health(), self._indexer_status())
        return SystemStatus(ready=health.ready, services=health.checks, indexer=held)

    async def _ask(self, service: str, endpoint: Endpoint[Empty, Health]) -> tuple[HealthCheck, bool]:
        """The check of a service, and whether the whole can do with it as it is."""
        try:
            health = await self._caller.call(endpoint, Empty(), timeout_s=self._timeout_s)
        except RequestError as error:
            lost = _MAY_BE_AWAY.get(service)
            detail = f"{error.message.rstrip('.')}: {lost}" if lost else error.message
            return HealthCheck(name=service, ready=False, detail=detail), lost is not None
        detail = "; ".join(f"{check.name}: {check.detail or 'not ready'}" for check in health.checks if not check.ready)
        check = HealthCheck(name=service, ready=health.ready, detail=detail if not health.ready else "")
        return check, health.ready or service in _MAY_BE_UNREADY | _MAY_BE_AWAY.keys()

    async def _indexer_status(self) -> IndexerStatus | None:
        try:
            return await self._caller.call(GET_STATUS, Empty(), timeout_s=self._timeout_s)
        except RequestError:
            return None
