"""Whether catalogue, vectors and what can be called agree."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query

from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE
from skillbus.contracts.http import AuditReport
from skillbus.contracts.indexer.tools import AUDIT_INDEX
from skillbus.contracts.message import DEFAULT_PROJECT, Project
from skillbus.gateway.domain.audit import Auditor, AuditOrder
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_AUDIT: Final = "/api/audit"


@dataclass(frozen=True, slots=True)
class AuditRoutes:
    """The handlers, over what they need."""

    auditor: Auditor

    async def get_audit(self, project: Annotated[Project, Query()] = DEFAULT_PROJECT) -> AuditReport:
        """Compare catalogue, vectors and what can be called. Nothing is changed; `agrees` says it in a word."""
        return await self.auditor.audit(AuditOrder(project=project))

    async def audit_and_fix(self, body: AuditOrder) -> AuditReport:
        """The same; with `fix` what can be mended is mended first, and `agrees` is of how it is then."""
        return await self.auditor.audit(body)


def add_audit_routes(to: DocumentedRouter, routes: AuditRoutes) -> None:
    """Put them under their paths."""
    errors = tuple(dict.fromkeys((*AUDIT_INDEX.errors, *AUDIT_CALLABLE.errors)))
    to.add("GET", _AUDIT, routes.get_audit, errors)
    to.add("POST", _AUDIT, routes.audit_and_fix, (*errors, *WITH_BODY), example={"fix": True})
