"""Whether catalogue, knowledge base, vectors and what can be called agree: two looks, of indexer and agent, as one."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from skillbus.contracts import agent, indexer
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, AuditCallable, CallableAudited
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import AuditReport, UnansweredAudit
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditDifference, AuditIndex, IndexAudited
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.gateway.domain.ports import BusCaller

T = TypeVar("T")

_AWAY: Final = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.OVERLOADED})


class AuditOrder(Message):
    """What is audited, and whether it is mended."""

    project: Project = DEFAULT_PROJECT
    fix: bool = False


class Auditor:
    """Asks both."""

    def __init__(self, caller: BusCaller) -> None:
        self._caller = caller

    async def audit(self, order: AuditOrder) -> AuditReport:
        """Look, after mending what can be if that is asked for.

        Raises:
            RequestError: Neither could be asked; or one failed otherwise than by being away.
        """
        repaired = await self._repair(order.project) if order.fix else ()
        index, calls = await asyncio.gather(self._index(order.project), self._calls(order.project))
        missing = tuple(part for part in (index, calls) if isinstance(part, UnansweredAudit))
        if len(missing) == 2:
            raise RequestError(missing[0].code, " ".join(part.message for part in missing))
        found_index = None if isinstance(index, UnansweredAudit) else index
        found_calls = None if isinstance(calls, UnansweredAudit) else calls
        agrees = not missing and not _differs(found_index, found_calls)
        return AuditReport(
            project=order.project,
            agrees=agrees,
            index=found_index,
            calls=found_calls,
            missing=missing,
            repaired=repaired,
        )

    async def _repair(self, project: str) -> tuple[AuditDifference, ...]:
        """The agent brings the catalogue up to date first, so that the indexer then mends what follows from it."""
        calls = await self._calls(project, fix=True)
        index = await self._index(project, fix=True)
        parts = (part for part in (calls, index) if not isinstance(part, UnansweredAudit))
        return tuple(difference for part in parts for difference in part.differences)

    async def _index(self, project: str, *, fix: bool = False) -> IndexAudited | UnansweredAudit:
        asked = self._caller.call(AUDIT_INDEX, AuditIndex(project=project, fix=fix))
        return await _if_there(indexer.SERVICE, asked)

    async def _calls(self, project: str, *, fix: bool = False) -> CallableAudited | UnansweredAudit:
        asked = self._caller.call(AUDIT_CALLABLE, AuditCallable(project=project, fix=fix))
        return await _if_there(agent.SERVICE, asked)


async def _if_there(service: str, asked: Awaitable[T]) -> T | UnansweredAudit:
    try:
        return await asked
    except RequestError as error:
        if error.code not in _AWAY:
            raise
        return UnansweredAudit(service=service, code=error.code, message=error.message)


def _differs(index: IndexAudited | None, calls: CallableAudited | None) -> bool:
    of_index = index is not None and bool(index.differences or index.knowledge_problem)
    of_calls = calls is not None and bool(calls.differences or calls.silent)
    return of_index or of_calls
