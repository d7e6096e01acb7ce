"""Start page: what waits for somebody, and the first things to do on a new installation."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fastapi import Request, Response

from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.tools import LIST_TOOLS, ListTools, ToolState, ToolType
from skillbus.contracts.learner.items import LIST_KNOWLEDGE, ListKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learning_jobs import LIST_LEARNING_JOBS, LearningStatus, ListLearningJobs
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.principal import Principal, get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.rendering import ASSETS, render_page

START_PAGE: Final = "/start"
EXAMPLES_SOURCE: Final = "examples"
"""Source of the knowledge items that the page installs, by which they are told from others."""
_FAILED_WITHIN: Final = timedelta(days=7)
"""Age of a failed job from which it no longer waits for anybody."""
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts by which a browser on the machine of the server opens the page."""
_EXAMPLES: Final = tuple(sorted(path.name for path in (ASSETS / "examples").iterdir()))


@dataclass(frozen=True, slots=True)
class _Count:
    """Number of entries of a list, or why it is not known."""

    total: int = 0
    problem: RequestError | None = None


@dataclass(frozen=True, slots=True)
class StartPages:
    """Handlers of the start page."""

    caller: BusCaller
    keys: KeyRegistry

    async def show_start(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show what waits, and the first things to do until they are done."""
        caller = get_caller(request.scope)
        has_key = asyncio.ensure_future(self._has_key(caller))
        knowledge, examples, pending, tools, skills, quarantined, failed = await asyncio.gather(
            *(
                self._count_items(ListKnowledge(project=project, limit=1)),
                self._count_items(ListKnowledge(project=project, limit=1, source=EXAMPLES_SOURCE)),
                self._count_items(ListKnowledge(project=project, limit=1, statuses=(KnowledgeStatus.PENDING,))),
                self._count_tools(ListTools(project=project, limit=1, states=(ToolState.ACTIVE,))),
                self._count_tools(ListTools(project=project, limit=1, tool_types=(ToolType.SKILL,))),
                self._count_tools(ListTools(project=project, limit=1, states=(ToolState.QUARANTINED,))),
                self._count_failed_jobs(project),
            )
        )
        done = {
            "examples": skills.total > 0,
            "knowledge": knowledge.total > examples.total,
            "agent": await has_key,
        }
        counts = (knowledge, pending, tools, quarantined, failed)
        context = {
            "knowledge": knowledge,
            "pending": pending,
            "tools": tools,
            "quarantined": quarantined,
            "failed": failed,
            "problems": tuple({it.problem.message: it.problem for it in counts if it.problem is not None}.values()),
            "done": done,
            "is_empty": not (done["examples"] or knowledge.total or pending.total),
            "examples": _EXAMPLES,
            "examples_source": EXAMPLES_SOURCE,
            "command": _find_command(request),
            "can_administrate": caller.role.includes(Role.ADMIN),
        }
        return render_page(request, "start/start.html", context, project=project)

    async def _count_items(self, query: ListKnowledge) -> _Count:
        try:
            return _Count((await self.caller.call(LIST_KNOWLEDGE, query)).total)
        except RequestError as error:
            return _Count(problem=error)

    async def _count_tools(self, query: ListTools) -> _Count:
        try:
            return _Count((await self.caller.call(LIST_TOOLS, query)).total)
        except RequestError as error:
            return _Count(problem=error)

    async def _count_failed_jobs(self, project: str) -> _Count:
        query = ListLearningJobs(project=project, status=LearningStatus.FAILED)
        try:
            listed = await self.caller.call(LIST_LEARNING_JOBS, query)
        except RequestError as error:
            return _Count(problem=error)
        since = datetime.now(UTC) - _FAILED_WITHIN
        return _Count(sum(job.created_at >= since for job in listed.jobs))

    async def _has_key(self, caller: Principal) -> bool:
        """Return True if somebody made a key for an agent, as far as the caller may know."""
        if not caller.role.includes(Role.ADMIN):
            return False
        listed = await self.keys.list_keys(caller)
        now = datetime.now(UTC)
        return any(key.revoked_at is None and (key.expires_at is None or key.expires_at > now) for key in listed.keys)


def _find_command(request: Request) -> str:
    """Return the command `skillbus`: with its folder if the browser runs on the server's machine, where it exists."""
    installed = Path(sys.executable).with_name("skillbus")
    return str(installed) if request.url.hostname in _THIS_MACHINE and installed.exists() else installed.name
