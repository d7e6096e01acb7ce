"""Readiness of the whole system."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.endpoint import Endpoint, Health, HealthCheck
from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import SystemStatus
from skillbus.contracts.indexer.skills import GET_STATUS, IndexerStatus
from skillbus.contracts.message import Empty
from skillbus.gateway.domain.ports import BusCaller, Connection, Storage

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
"""Services that may be unready in a ready system: a machine that cannot isolate runs still installs and finds tools.

A sandbox that does not reply makes the system unready, because a service is missing then.
"""
_MAY_BE_AWAY: Final[Mapping[str, str]] = {
    agent.SERVICE: "search and runs work, but MCP and builtin tools cannot be called, and MCP servers are not followed",
    learner.SERVICE: "search and runs of tools work, but knowledge cannot be stored or found",
}
"""Services that may be missing in a ready system, each with what does not work without it."""


class Readiness:
    """Asks every service at the same time whether it is ready."""

    def __init__(
        self,
        caller: BusCaller,
        connection: Connection,
        storage: Storage | None,
        check_processes: Callable[[], Awaitable[HealthCheck]] | None = None,
        *,
        timeout_s: float,
    ) -> None:
        """Make the readiness of a system.

        Args:
            storage: Disk of all services, if they share one.
            check_processes: Returns which processes run, if there are several of one gateway. Searches work without
                some of them.
        """
        self._check_processes = check_processes
        self._caller = caller
        self._storage = storage
        self._connection = connection
        self._timeout_s = timeout_s

    async def check_health(self) -> Health:
        """Return the health of the system: ready if NATS is connected and every required service is ready.

        A full disk is reported and does not make it unready, because reading works. Warnings of a service are in
        `warning` of its check.
        """
        checked = await asyncio.gather(*(self._check(service, endpoint) for service, endpoint in _SERVICES.items()))
        connected = self._connection.is_connected
        nats = HealthCheck(name="nats", ready=connected, detail="" if connected else "not connected")
        ready = connected and all(is_enough for _, is_enough in checked)
        processes = () if self._check_processes is None else (await self._check_processes(),)
        services = (one for one, _ in checked)
        return Health(service=SERVICE, ready=ready, checks=(nats, *processes, *self._check_storage(), *services))

    async def get_status(self) -> SystemStatus:
        """Return the health of the system and the state of the index."""

        async def get_indexer_status() -> IndexerStatus | None:
            try:
                return await self._caller.call(GET_STATUS, Empty(), timeout_s=self._timeout_s)
            except RequestError:
                return None

        health, indexer_status = await asyncio.gather(self.check_health(), get_indexer_status())
        services = tuple(_append_warning(check) for check in health.checks)
        return SystemStatus(ready=health.ready, services=services, indexer=indexer_status)

    def _check_storage(self) -> tuple[HealthCheck, ...]:
        if self._storage is None:
            return ()
        reason = self._storage.explain_refusal()
        return (HealthCheck(name="storage", ready=reason is None, detail=reason or ""),)

    async def _check(self, service: str, endpoint: Endpoint[Empty, Health]) -> tuple[HealthCheck, bool]:
        """Return the check of a service, and True if the system can be ready with it."""
        try:
            health = await self._caller.call(endpoint, Empty(), timeout_s=self._timeout_s)
        except RequestError as error:
            lost = _MAY_BE_AWAY.get(service)
            detail = f"{error.message.rstrip('.')}: {lost}" if lost else error.message
            return HealthCheck(name=service, ready=False, detail=detail), lost is not None
        detail = "; ".join(f"{check.name}: {check.detail or 'not ready'}" for check in health.checks if not check.ready)
        warning = "; ".join(f"{check.name}: {check.warning}" for check in health.checks if check.warning)
        check = HealthCheck(name=service, ready=health.ready, detail=detail, warning=warning)
        return check, health.ready or service in _MAY_BE_UNREADY | _MAY_BE_AWAY.keys()


def _append_warning(check: HealthCheck) -> HealthCheck:
    """Return a check whose detail ends with its warning."""
    return check.model_copy(update={"detail": "; ".join(filter(None, (check.detail, check.warning)))})
