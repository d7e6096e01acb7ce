"""Routes of the pages, and the pages of problems."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import Problem
from skillbus.gateway.domain.access.login_link import LOGIN_PATH
from skillbus.gateway.domain.access.route_rule import RouteRule
from skillbus.gateway.domain.http_headers import prefers_media_type
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.pages.login import LoginPages
from skillbus.gateway.service.pages.rendering import render_page
from skillbus.gateway.service.pages.sections.administration import (
    AUDIT_LOG_PAGE,
    DEAD_LETTERS_PAGE,
    KEYS_PAGE,
    AdministrationPages,
)
from skillbus.gateway.service.pages.sections.chat import CHAT_PAGE, ChatPages
from skillbus.gateway.service.pages.sections.context import CONTEXT_PAGE, RESOLVE_PAGE, ContextPages
from skillbus.gateway.service.pages.sections.knowledge import KNOWLEDGE_PAGE, KnowledgePages
from skillbus.gateway.service.pages.sections.learning import LEARNING_PAGE, LearningPages
from skillbus.gateway.service.pages.sections.review import REVIEW_PAGE, ReviewPages
from skillbus.gateway.service.pages.sections.runs import RUNS_PAGE, RunPages
from skillbus.gateway.service.pages.sections.search.pages import SEARCH_PAGE, SearchPages
from skillbus.gateway.service.pages.sections.servers import SERVERS_PAGE, ServerPages
from skillbus.gateway.service.pages.sections.skills import SKILLS_PAGE, SkillPages
from skillbus.gateway.service.pages.sections.start import START_PAGE, StartPages
from skillbus.gateway.service.pages.sections.statistics import STATISTICS_PAGE, StatisticsPages
from skillbus.gateway.service.pages.sections.system import SYSTEM_PAGE, SystemPages
from skillbus.gateway.service.pages.sections.tools import TOOLS_PAGE, ToolPages

_PROGRAMS: Final = ("/api/", "/v1/", "/mcp/", "/docs/", "/openapi.json/", "/metrics/", "/assets/")
"""Beginnings of paths whose problems are always documents for programs."""


def add_pages(router: APIRouter, login: LoginPages, start: StartPages, skills: SkillPages, caller: BusCaller) -> None:
    """Add the routes of all pages."""
    knowledge, review = KnowledgePages(caller), ReviewPages(caller)
    search, context, tools = SearchPages(caller), ContextPages(caller), ToolPages(caller)
    learning = LearningPages(caller)
    servers, runs = ServerPages(caller), RunPages(caller)
    _add_page(router, LOGIN_PATH, None, login.show_login)
    _add_page(router, LEARNING_PAGE, Role.READER, learning.show_list)
    _add_page(router, f"{LEARNING_PAGE}/{{id}}", Role.READER, learning.show_job)
    _add_page(router, START_PAGE, Role.READER, start.show_start)
    item = f"{KNOWLEDGE_PAGE}/{{id}}"
    _add_page(router, KNOWLEDGE_PAGE, Role.READER, knowledge.show_list)
    _add_page(router, f"{KNOWLEDGE_PAGE}/preview", Role.READER, knowledge.show_preview, method="POST")
    _add_page(router, f"{KNOWLEDGE_PAGE}/similar", Role.READER, knowledge.show_similar, method="POST")
    _add_page(router, f"{KNOWLEDGE_PAGE}/scope-match", Role.READER, knowledge.show_scope_match)
    _add_page(router, f"{KNOWLEDGE_PAGE}/new", Role.EDITOR, knowledge.show_new_item)
    _add_page(router, item, Role.READER, knowledge.show_item)
    _add_page(router, f"{item}/edit", Role.EDITOR, knowledge.edit_item)
    _add_page(router, f"{item}/theirs", Role.EDITOR, knowledge.show_theirs)
    _add_page(router, f"{item}/history", Role.READER, knowledge.show_history)
    _add_page(router, REVIEW_PAGE, Role.READER, review.show_queue)
    _add_page(router, f"{REVIEW_PAGE}/{{id}}", Role.READER, review.show_candidate)
    _add_page(router, TOOLS_PAGE, Role.READER, tools.show_list)
    _add_page(router, f"{TOOLS_PAGE}/{{id:path}}", Role.READER, tools.show_tool)
    _add_page(router, SKILLS_PAGE, Role.READER, skills.show_list)
    _add_page(router, f"{SKILLS_PAGE}/{{name}}", Role.READER, skills.show_skill)
    _add_page(router, SERVERS_PAGE, Role.READER, servers.show_list)
    _add_page(router, f"{SERVERS_PAGE}/{{name}}", Role.READER, servers.show_server)
    _add_page(router, RUNS_PAGE, Role.READER, runs.show_list)
    _add_page(router, f"{RUNS_PAGE}/{{run_id}}", Role.READER, runs.show_run)
    _add_page(router, SEARCH_PAGE, Role.READER, search.show_search)
    _add_page(router, CONTEXT_PAGE, Role.READER, context.show_context)
    _add_page(router, RESOLVE_PAGE, Role.READER, context.show_resolution)
    _add_page(router, STATISTICS_PAGE, Role.READER, StatisticsPages(caller).show_statistics)
    _add_page(router, CHAT_PAGE, Role.READER, ChatPages(caller).show_chat)


def add_system_pages(router: APIRouter, system: SystemPages, administration: AdministrationPages) -> None:
    """Add the routes of the page of the system, of its parts, and of the pages for administrators."""
    _add_page(router, SYSTEM_PAGE, Role.READER, system.show_system)
    parts = f"{SYSTEM_PAGE}/parts"
    _add_page(router, f"{parts}/services", Role.READER, system.show_services)
    _add_page(router, f"{parts}/models", Role.READER, system.show_models)
    _add_page(router, f"{parts}/indexes", Role.READER, system.show_indexes)
    _add_page(router, f"{parts}/waiting", Role.READER, system.show_waiting)
    _add_page(router, f"{parts}/comparison", Role.READER, system.show_comparison)
    count = system.show_dead_letter_count
    _add_page(router, f"{parts}/dead-letters", Role.ADMIN, count, needs_all_projects=True)
    _add_page(router, AUDIT_LOG_PAGE, Role.ADMIN, administration.show_audit_log)
    _add_page(router, KEYS_PAGE, Role.ADMIN, administration.show_keys)
    letters = administration.show_dead_letters
    _add_page(router, DEAD_LETTERS_PAGE, Role.ADMIN, letters, needs_all_projects=True)
    letter = administration.show_dead_letter
    _add_page(router, f"{DEAD_LETTERS_PAGE}/{{sequence}}", Role.ADMIN, letter, needs_all_projects=True)


def show_page_problem(show_document: Callable[[Problem], Response], scope: Scope, problem: Problem) -> Response:
    """Return the reply for a problem: the login or a page for a browser that opens a page, else a document."""
    request = Request(scope)
    accept = request.headers.get("Accept", "")
    is_program = f"{scope['path']}/".startswith(_PROGRAMS) or scope["method"] not in {"GET", "HEAD"}
    if is_program or "HX-Request" in request.headers or not prefers_media_type(accept, "text/html", "application/json"):
        return show_document(problem)
    query = scope["query_string"].decode("latin-1")
    wanted = f"{scope['path']}?{query}" if query else scope["path"]
    if problem.code is ErrorCode.UNAUTHORIZED:
        return RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': wanted})}", 303)
    return render_page(request, "error.html", {"problem": problem, "address": wanted}, status=problem.status)


def _add_page(
    router: APIRouter,
    path: str,
    role: Role | None,
    handler: Callable[..., object],
    *,
    method: str = "GET",
    needs_all_projects: bool = False,
) -> None:
    router.add_api_route(
        path,
        handler,
        methods=[method],
        include_in_schema=False,
        response_model=None,
        openapi_extra=RouteRule(role, needs_all_projects=needs_all_projects).to_openapi(),
    )
