"""All routes together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from fastapi.routing import APIRoute

from skillbus.common.audit_log.recorder import ActRecorder
from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts.http import OpenAiErrorBody
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.chat.turn_runner import RemoteTurnRunner
from skillbus.gateway.domain.imports.home_importer import HomeImporter
from skillbus.gateway.domain.imports.tool_importer import ToolImporter
from skillbus.gateway.domain.knowledge import KnowledgeImporter
from skillbus.gateway.domain.learning.job_follower import JobFollower
from skillbus.gateway.domain.learning.uploader import LearningUploader
from skillbus.gateway.domain.openai import TextEmbedder
from skillbus.gateway.domain.package_installer import PackageInstaller
from skillbus.gateway.domain.ports import BusCaller, ServiceDiscovery
from skillbus.gateway.domain.runs.run_watcher import RunWatcher
from skillbus.gateway.domain.runs.skill_runner import RemoteSkillRunner
from skillbus.gateway.domain.runs.tool_calls import RemoteToolCaller
from skillbus.gateway.domain.switch_follower import SwitchFollower
from skillbus.gateway.service.access.api_keys import ApiKeyRoutes, add_api_key_routes
from skillbus.gateway.service.access.sessions import SessionRoutes, add_session_routes
from skillbus.gateway.service.chat import ChatRoutes, add_chat_routes
from skillbus.gateway.service.dead_letters import DeadLetterRoutes, add_dead_letter_routes
from skillbus.gateway.service.documented_router import DocumentedRouter
from skillbus.gateway.service.embedding_registry import EmbeddingRegistryRoutes, add_embedding_registry_routes
from skillbus.gateway.service.homes.inventory import HomeRoutes, add_home_routes
from skillbus.gateway.service.homes.spoken_commands import SpokenCommandRoutes, add_spoken_command_routes
from skillbus.gateway.service.indexes import IndexRoutes, add_index_routes
from skillbus.gateway.service.knowledge.items import KnowledgeRoutes, add_knowledge_routes
from skillbus.gateway.service.knowledge.knowledge_base import KnowledgeBaseRoutes, add_knowledge_base_routes
from skillbus.gateway.service.learning import LearningRoutes, add_learning_routes
from skillbus.gateway.service.mcp_servers import McpServerRoutes, add_mcp_server_routes
from skillbus.gateway.service.openai import OpenAiRoutes, add_openai_routes
from skillbus.gateway.service.pages.login import LoginPages
from skillbus.gateway.service.pages.router import add_pages, add_system_pages
from skillbus.gateway.service.pages.sections.administration import AdministrationPages
from skillbus.gateway.service.pages.sections.skills import SkillPages
from skillbus.gateway.service.pages.sections.start import StartPages
from skillbus.gateway.service.pages.sections.system import SystemPages
from skillbus.gateway.service.runs.calls import CallRoutes, add_call_routes
from skillbus.gateway.service.runs.skill_runs import RunRoutes, add_run_routes
from skillbus.gateway.service.skills import SkillRoutes, add_skill_routes
from skillbus.gateway.service.system import AuditLogRoutes, SystemRoutes, add_audit_log_route, add_system_routes
from skillbus.gateway.service.tools import ToolRoutes, add_tool_routes

_SKILLS: Final = "skills"
_RUNS: Final = "runs"
_TOOLS: Final = "tools"
_KNOWLEDGE: Final = "knowledge"
_LEARNING: Final = "learning"
_HOMES: Final = "homes"
_MCP_SERVERS: Final = "MCP servers"
_EMBEDDING: Final = "embedding"
_INDEXES: Final = "indexes"
_DEAD_LETTERS: Final = "dead letters"
_OPENAI: Final = "OpenAI"
_KEYS: Final = "keys"
_SYSTEM: Final = "system"
TAGS: Final[Sequence[dict[str, str]]] = (
    {"name": _SKILLS, "description": "Install, update, pin and remove skills."},
    {"name": _RUNS, "description": "Run skills in the sandbox, follow and cancel runs, fetch their files."},
    {"name": _TOOLS, "description": "Search, describe, review and call tools of every type."},
    {"name": _KNOWLEDGE, "description": "Write, search, review, import and export knowledge; build contexts."},
    {"name": _LEARNING, "description": "Learn from logs, traffic and test runs; follow and cancel jobs."},
    {"name": _HOMES, "description": "Keep devices and their commands, and resolve spoken commands to them."},
    {"name": _MCP_SERVERS, "description": "Register MCP servers, whose tools become part of the catalogue."},
    {"name": _EMBEDDING, "description": "Register embedding providers and models."},
    {"name": _INDEXES, "description": "Follow and control the switch of an index to another model."},
    {"name": _DEAD_LETTERS, "description": "List, replay and drop events that a consumer gave up on."},
    {"name": _OPENAI, "description": "Chats, embeddings and models in the format of OpenAI's API."},
    {"name": _KEYS, "description": "Make, list and revoke API keys; log in with one in a browser."},
    {"name": _SYSTEM, "description": "Status, audit, audit log, probes and metrics."},
)
"""Tags of the operations, for the API documentation."""


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """Parts of the domain that the handlers need."""

    caller: BusCaller
    installer: PackageInstaller
    skill_files: SkillFiles
    runner: RemoteSkillRunner
    run_watcher: RunWatcher
    tool_caller: RemoteToolCaller
    tool_importer: ToolImporter
    home_importer: HomeImporter
    knowledge_importer: KnowledgeImporter
    learning_uploader: LearningUploader
    job_follower: JobFollower
    switch_follower: SwitchFollower
    discovery: ServiceDiscovery
    key_registry: KeyRegistry
    sessions: SessionRoutes
    login_pages: LoginPages
    turns: RemoteTurnRunner
    recorder: ActRecorder
    system: SystemRoutes


def build_router(parts: GatewayParts, route_class: type[APIRoute]) -> APIRouter:
    """Return a router with every route. `route_class` reads the bodies."""
    caller = parts.caller
    router = APIRouter(route_class=route_class)
    # Searches and calls first: FastAPI compares a path with the routes one after the other, 5 µs each.
    add_call_routes(DocumentedRouter(router, _TOOLS), CallRoutes(parts.tool_caller))
    add_tool_routes(DocumentedRouter(router, _TOOLS), ToolRoutes(caller, parts.tool_importer))
    add_spoken_command_routes(DocumentedRouter(router, _HOMES), SpokenCommandRoutes(caller))
    add_home_routes(DocumentedRouter(router, _HOMES), HomeRoutes(caller, parts.home_importer))
    add_skill_routes(DocumentedRouter(router, _SKILLS), SkillRoutes(caller, parts.installer, parts.skill_files))
    add_run_routes(DocumentedRouter(router, _RUNS), RunRoutes(caller, parts.runner, parts.run_watcher))
    add_knowledge_base_routes(
        DocumentedRouter(router, _KNOWLEDGE), KnowledgeBaseRoutes(caller, parts.knowledge_importer)
    )
    add_knowledge_routes(DocumentedRouter(router, _KNOWLEDGE), KnowledgeRoutes(caller))
    add_learning_routes(
        DocumentedRouter(router, _LEARNING), LearningRoutes(caller, parts.learning_uploader, parts.job_follower)
    )
    add_mcp_server_routes(DocumentedRouter(router, _MCP_SERVERS), McpServerRoutes(caller))
    add_embedding_registry_routes(DocumentedRouter(router, _EMBEDDING), EmbeddingRegistryRoutes(caller))
    add_index_routes(DocumentedRouter(router, _INDEXES), IndexRoutes(caller, parts.switch_follower))
    add_dead_letter_routes(DocumentedRouter(router, _DEAD_LETTERS), DeadLetterRoutes(caller))
    add_api_key_routes(DocumentedRouter(router, _KEYS), ApiKeyRoutes(parts.key_registry, parts.recorder))
    add_audit_log_route(DocumentedRouter(router, _SYSTEM), AuditLogRoutes(caller))
    add_session_routes(DocumentedRouter(router, _KEYS), parts.sessions)
    add_system_routes(DocumentedRouter(router, _SYSTEM), parts.system)
    openai_errors = ("application/json", OpenAiErrorBody.__name__)
    add_chat_routes(DocumentedRouter(router, _OPENAI, openai_errors), ChatRoutes(parts.turns))
    add_openai_routes(DocumentedRouter(router, _OPENAI, openai_errors), OpenAiRoutes(caller, TextEmbedder(caller)))
    system = SystemPages(caller, parts.system.readiness, parts.system.auditor, parts.discovery)
    add_system_pages(router, system, AdministrationPages(caller, parts.key_registry))
    start, skills = (
        StartPages(caller, parts.key_registry),
        SkillPages(caller, parts.skill_files, parts.installer.max_bytes),
    )
    add_pages(router, parts.login_pages, start, skills, caller)
    return router
