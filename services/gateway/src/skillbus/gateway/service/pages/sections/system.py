"""Page of the system. Each part loads by itself, so that a service that is down costs its part alone."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request, Response

from skillbus.contracts.catalogue import SERVICES
from skillbus.contracts.embedder.registry import LIST_MODELS, LIST_PROVIDERS, ProviderRecord
from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import AuditOrder
from skillbus.contracts.indexer.dead_letters import LIST_DEAD_LETTERS, ListDeadLetters
from skillbus.contracts.indexer.index_switch import LIST_INDEXES, SwitchPhase
from skillbus.contracts.indexer.skills import GET_STATUS
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, GetKnowledgeStats
from skillbus.contracts.message import DEFAULT_PROJECT, Empty
from skillbus.gateway.domain.access.principal import Principal, get_caller
from skillbus.gateway.domain.audit import SystemAuditor
from skillbus.gateway.domain.ports import BusCaller, ServiceDiscovery, ServiceInstance
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.domain.switch_follower import is_switched
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.part_answers import get_part
from skillbus.gateway.service.pages.rendering import render_page

SYSTEM_PAGE: Final = "/system"
_PARTS: Final = {
    "services": "Services",
    "models": "Models",
    "indexes": "Indexes",
    "waiting": "Waiting to be indexed",
    "comparison": "Index and records",
}
"""Titles of the parts that every reader sees, by the last part of their path."""


@dataclass(frozen=True, slots=True)
class SystemPages:
    """Handlers of the page of the system and of its parts."""

    caller: BusCaller
    readiness: Readiness
    auditor: SystemAuditor
    discovery: ServiceDiscovery

    async def show_system(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the page without its parts, which the browser asks for one by one."""
        caller = get_caller(request.scope)
        parts = dict(_PARTS) | ({"dead-letters": "Dead letters"} if may_run_system(caller) else {})
        context = {"parts": parts, **list_rights(caller)}
        return render_page(request, "system/overview.html", context, project=project)

    async def show_services(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show whether each service is ready, and its instances."""
        return await _show_part(request, "services", project, self._load_services())

    async def show_models(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the models, and to administrators of everything their providers."""
        loading = self._load_models(with_providers=may_run_system(get_caller(request.scope)))
        return await _show_part(request, "models", project, loading)

    async def show_indexes(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show the indexes and their switches to other models."""
        loading = self._load_indexes(may_roll_back=may_run_system(get_caller(request.scope)))
        return await _show_part(request, "indexes", project, loading)

    async def show_waiting(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show how much of what was written searches do not find yet."""
        return await _show_part(request, "waiting", project, self._load_waiting(project))

    async def show_comparison(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show where the indexes and the records differ."""
        return await _show_part(request, "comparison", project, self._load_comparison(project))

    async def show_dead_letter_count(self, request: Request, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Show how many dead letters there are."""
        return await _show_part(request, "dead-letters", project, self._load_dead_letters())

    async def _load_services(self) -> dict[str, object]:
        status, found = await asyncio.gather(self.readiness.get_status(), get_part(self.discovery.list_instances()))
        instances = defaultdict[str, list[ServiceInstance]](list)
        for instance in sorted(found.value or (), key=lambda one: one.started_at):
            instances[instance.service].append(instance)
        return {"status": status, "instances": instances, "problem": found.problem, "services": SERVICES}

    async def _load_models(self, *, with_providers: bool) -> dict[str, object]:
        models = self.caller.call(LIST_MODELS, Empty())
        if not with_providers:
            return {"models": (await models).models, "providers": ()}
        listed, providers = await asyncio.gather(models, self.caller.call(LIST_PROVIDERS, Empty()))
        shown = tuple((provider, _name_host(provider)) for provider in providers.providers)
        return {"models": listed.models, "providers": shown}

    async def _load_indexes(self, *, may_roll_back: bool) -> dict[str, object]:
        indexes = (await self.caller.call(LIST_INDEXES, Empty())).indexes
        running = {index.alias for index in indexes if is_switched(index)}
        kept = {index.alias for index in indexes if index.switch and index.switch.phase is SwitchPhase.KEPT}
        with_a_way_back = (running | kept) if may_roll_back else set()
        return {"indexes": indexes, "running": running, "kept": kept, "with_a_way_back": with_a_way_back}

    async def _load_waiting(self, project: str) -> dict[str, object]:
        wanted = GetKnowledgeStats(project=project, limit=0)
        stats, indexer = await asyncio.gather(
            get_part(self.caller.call(GET_KNOWLEDGE_STATS, wanted)), get_part(self.caller.call(GET_STATUS, Empty()))
        )
        return {
            "knowledge": stats.value and stats.value.unindexed,
            "skills": indexer.value and indexer.value.waiting,
            "problems": tuple(part.problem for part in (stats, indexer) if part.problem is not None),
        }

    async def _load_comparison(self, project: str) -> dict[str, object]:
        return {"report": await self.auditor.audit(AuditOrder(project=project))}

    async def _load_dead_letters(self) -> dict[str, object]:
        listed = await self.caller.call(LIST_DEAD_LETTERS, ListDeadLetters(limit=1))
        return {"total": listed.total}


def may_run_system(caller: Principal) -> bool:
    """Return True if the caller administrates what concerns all projects."""
    return caller.role.includes(Role.ADMIN) and caller.has_all_projects


def list_rights(caller: Principal) -> dict[str, object]:
    """Return what the templates of the system offer to a caller."""
    return {"can_administrate": caller.role.includes(Role.ADMIN), "can_run_system": may_run_system(caller)}


async def _show_part(request: Request, part: str, project: str, loading: Awaitable[Mapping[str, object]]) -> Response:
    """Return a part, or the error of the service that should have answered, in the part's place."""
    rights = list_rights(get_caller(request.scope))
    try:
        context = {**await loading, **rights}
    except RequestError as error:
        return render_page(request, "system/part_problem.html", {"problem": error, "part": part}, project=project)
    return render_page(request, f"system/parts/{part}.html", context, project=project)


def _name_host(provider: ProviderRecord) -> str:
    """Return the host of a provider, without what else an old address may hold."""
    return urlsplit(provider.base_url or "").hostname or ""
