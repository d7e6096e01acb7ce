"""Audit of the system: the indexer's comparison of the index and the agent's comparison of callable tools, as one."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from skillbus.contracts import agent, indexer
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, AuditCallable, CallableAudited
from skillbus.contracts.errors import RequestError
from skillbus.contracts.http import AuditOrder, AuditReport, UnansweredAudit
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditDifference, AuditIndex, IndexAudited
from skillbus.gateway.domain.ports import AWAY, BusCaller

T = TypeVar("T")


class SystemAuditor:
    """Asks the indexer and the agent service for their audits."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def audit(self, order: AuditOrder) -> AuditReport:
        """Audit a project, after a repair if the order asks for one.

        Raises:
            RequestError: Neither service replied, or one of them failed.
        """
        repaired: tuple[AuditDifference, ...] = ()
        if order.fix:
            # The agent service repairs the catalogue first, and the indexer then repairs the index from it.
            fixed_calls = await self._audit_calls(order.project, fix=True)
            fixed_index = await self._audit_index(order.project, fix=True)
            fixed = (part for part in (fixed_calls, fixed_index) if not isinstance(part, UnansweredAudit))
            repaired = tuple(difference for part in fixed for difference in part.differences)
        index, calls = await asyncio.gather(self._audit_index(order.project), self._audit_calls(order.project))
        missing = tuple(part for part in (index, calls) if isinstance(part, UnansweredAudit))
        if len(missing) == 2:
            raise RequestError(missing[0].code, " ".join(part.message for part in missing))
        found_index = None if isinstance(index, UnansweredAudit) else index
        found_calls = None if isinstance(calls, UnansweredAudit) else calls
        index_differs = found_index is not None and bool(found_index.differences or found_index.knowledge_problem)
        calls_differ = found_calls is not None and bool(found_calls.differences or found_calls.silent)
        return AuditReport(
            project=order.project,
            agrees=not missing and not index_differs and not calls_differ,
            index=found_index,
            calls=found_calls,
            missing=missing,
            repaired=repaired,
        )

    async def _audit_index(self, project: str, *, fix: bool = False) -> IndexAudited | UnansweredAudit:
        reply = self._caller.call(AUDIT_INDEX, AuditIndex(project=project, fix=fix))
        return await _await_unless_away(indexer.SERVICE, reply)

    async def _audit_calls(self, project: str, *, fix: bool = False) -> CallableAudited | UnansweredAudit:
        reply = self._caller.call(AUDIT_CALLABLE, AuditCallable(project=project, fix=fix))
        return await _await_unless_away(agent.SERVICE, reply)


async def _await_unless_away(service: str, reply: Awaitable[T]) -> T | UnansweredAudit:
    try:
        return await reply
    except RequestError as error:
        if error.code not in AWAY:
            raise
        return UnansweredAudit(service=service, code=error.code, message=error.message)
