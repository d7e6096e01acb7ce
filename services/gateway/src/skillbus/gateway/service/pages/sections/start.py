"""Start page: what waits for somebody, and the first things to do on a new installation."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from fastapi import Request, Response

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
from skillbus.gateway.service.pages.part_answers import get_part
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
class StartPages:
    """Handlers of the start page."""

    caller: BusCaller
    keys: KeyRegistry

    async def show_start(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show what waits, and the first things to do until they are done."""
        caller = get_caller(request.scope)
        knowledge, examples, pending, tools, skills, quarantined, failed, keys = await asyncio.gather(
            get_part(self._count_items(ListKnowledge(project=project, limit=1))),
            get_part(self._count_items(ListKnowledge(project=project, limit=1, source=EXAMPLES_SOURCE))),
            get_part(self._count_items(ListKnowledge(project=project, limit=1, statuses=(KnowledgeStatus.PENDING,)))),
            get_part(self._count_tools(ListTools(project=project, limit=1, states=(ToolState.ACTIVE,)))),
            get_part(self._count_tools(ListTools(project=project, limit=1, tool_types=(ToolType.SKILL,)))),
            get_part(self._count_tools(ListTools(project=project, limit=1, states=(ToolState.QUARANTINED,)))),
            get_part(self._count_failed_jobs(project)),
            get_part(self._count_keys(caller)),
        )
        counts = (knowledge, pending, tools, quarantined, failed, keys)
        is_known = not any(part.problem for part in (knowledge, examples, pending, skills, keys))
        done = {
            "examples": bool(skills.value),
            "knowledge": (knowledge.value or 0) > (examples.value or 0),
            "agent": bool(keys.value),
        }
        context = {
            "knowledge": knowledge,
            "pending": pending,
            "tools": tools,
            "quarantined": quarantined,
            "failed": failed,
            "problems": tuple({it.problem.message: it.problem for it in counts if it.problem is not None}.values()),
            "done": done,
            "is_known": is_known,
            "is_empty": is_known and not (skills.value or knowledge.value or pending.value),
            "examples": _EXAMPLES,
            "examples_source": EXAMPLES_SOURCE,
            "command": _find_command(request),
            "can_administrate": caller.role.includes(Role.ADMIN),
        }
        return render_page(request, "start/start.html", context, project=project)

    async def _count_items(self, query: ListKnowledge) -> int:
        return (await self.caller.call(LIST_KNOWLEDGE, query)).total

    async def _count_tools(self, query: ListTools) -> int:
        return (await self.caller.call(LIST_TOOLS, query)).total

    async def _count_failed_jobs(self, project: str) -> int:
        listed = await self.caller.call(
            LIST_LEARNING_JOBS, ListLearningJobs(project=project, status=LearningStatus.FAILED)
        )
        since = datetime.now(UTC) - _FAILED_WITHIN
        return sum(job.created_at >= since for job in listed.jobs)

    async def _count_keys(self, caller: Principal) -> int:
        """Return the number of valid keys that somebody made for agents, as far as the caller may know."""
        if not caller.role.includes(Role.ADMIN):
            return 0
        listed = await self.keys.list_keys(caller)
        now = datetime.now(UTC)
        return sum(key.revoked_at is None and (key.expires_at is None or key.expires_at > now) for key in listed.keys)


def _find_command(request: Request) -> str:
    """Return the command `skillbus`: with its folder if the browser runs on the server's machine, where it exists."""
    installed = Path(sys.executable).with_name("skillbus")
    return str(installed) if request.url.hostname in _THIS_MACHINE and installed.exists() else installed.name
