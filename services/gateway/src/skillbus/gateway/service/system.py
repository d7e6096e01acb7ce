"""The system as a whole: status, audit, audit log, probes and metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Query, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE
from skillbus.contracts.endpoint import Health
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import AuditOrder, AuditReport, SystemStatus
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG, AuditLogListed, ListAuditLog
from skillbus.contracts.indexer.tools import AUDIT_INDEX
from skillbus.contracts.message import DEFAULT_PROJECT, Message
from skillbus.gateway.domain.audit import SystemAuditor
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery

_AUDIT: Final = "/api/audit"
_NOT_READY: Final[Documented] = {503: {"model": Health, "description": "Not ready. `checks` says what is missing."}}


class Alive(Message):
    """Reply of a running gateway."""

    status: str = "ok"


class MetricsResponse(Response):
    """Metrics in Prometheus's text format."""

    media_type = CONTENT_TYPE_LATEST


async def render_registry(registry: CollectorRegistry) -> bytes:
    """Return the metrics of this process."""
    return generate_latest(registry)


@dataclass(frozen=True, slots=True)
class SystemRoutes:
    """Handlers of the system as a whole."""

    readiness: Readiness
    auditor: SystemAuditor
    render_metrics: Callable[[], Awaitable[bytes]]

    async def get_status(self) -> SystemStatus:
        """Return the readiness of every service, with warnings, and the state of the index."""
        return await self.readiness.get_status()

    async def get_audit(self, project: ProjectInQuery = DEFAULT_PROJECT) -> AuditReport:
        """Compare catalogue, knowledge base, vectors and callable tools without changing anything.

        `agrees` is the result in one word.
        """
        return await self.auditor.audit(AuditOrder(project=project))

    async def audit_and_fix(self, body: AuditOrder) -> AuditReport:
        """Compare catalogue, knowledge base, vectors and callable tools. With `fix`, repair the differences first.

        `agrees` then describes the repaired state. A repair lists every MCP server again, as `/refresh` does.
        """
        return await self.auditor.audit(body)

    async def healthz(self) -> Alive:
        """Report that the gateway is running."""
        return Alive()

    async def readyz(self, response: Response) -> Health:
        """Report whether every required service is ready.

        A sandbox that cannot isolate runs, an agent service or a learner that is away are reported but do not make the
        system unready, because the rest works without them. Warnings are left out, because anybody may read this:
        `/api/status` has them.
        """
        health = await self.readiness.check_health()
        checks = tuple(check.model_copy(update={"warning": ""}) for check in health.checks)
        response.status_code = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return health.model_copy(update={"checks": checks})

    async def metrics(self) -> Response:
        """Return the metrics of this process for Prometheus, or those of all processes that share its port.

        The metrics of each further process have the label `worker`.
        """
        return MetricsResponse(await self.render_metrics())


@dataclass(frozen=True, slots=True)
class AuditLogRoutes:
    """Handler of the audit log."""

    caller: BusCaller

    async def list_audit_log(self, query: Annotated[ListAuditLog, Query()]) -> AuditLogListed:
        """List the administrative acts, newest first: who did what, when, and from where.

        A page can be shorter than `limit` although more follow; `next` is the `before` of the next page. A key of one
        project sees the acts of this project. A key of all projects sees all acts, or those of the `project` that it
        names.
        """
        return await self.caller.call(LIST_AUDIT_LOG, query)


def add_audit_log_route(router: DocumentedRouter, routes: AuditLogRoutes) -> None:
    """Add the route of the audit log."""
    router.add("GET", "/api/audit-log", Role.ADMIN, routes.list_audit_log, LIST_AUDIT_LOG.errors)


def add_system_routes(router: DocumentedRouter, routes: SystemRoutes) -> None:
    """Add the routes of the system."""
    errors = tuple(dict.fromkeys((*AUDIT_INDEX.errors, *AUDIT_CALLABLE.errors)))
    router.add("GET", _AUDIT, Role.READER, routes.get_audit, errors)
    router.add("POST", _AUDIT, Role.ADMIN, routes.audit_and_fix, errors, example={"fix": True})
    router.add("GET", "/api/status", Role.READER, routes.get_status)
    router.add("GET", "/metrics", Role.READER, routes.metrics, response=MetricsResponse)
    router.add_probe("/healthz", routes.healthz, {})
    router.add_probe("/readyz", routes.readyz, _NOT_READY)
