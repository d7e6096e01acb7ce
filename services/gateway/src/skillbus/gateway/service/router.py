"""All routes together."""

from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.routing import APIRoute

from skillbus.gateway.domain.audit import Auditor
from skillbus.gateway.domain.imports.tool_importer import ToolImporter
from skillbus.gateway.domain.knowledge.exporter import KnowledgeExporter
from skillbus.gateway.domain.knowledge.importer import KnowledgeImporter
from skillbus.gateway.domain.openai.embeddings import TextEmbedder
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.runs.runner import SkillRunner
from skillbus.gateway.service.audit import AuditRoutes, add_audit_routes
from skillbus.gateway.service.dead_letters import DeadLetterRoutes, add_dead_letter_routes
from skillbus.gateway.service.documented_router import DocumentedRouter
from skillbus.gateway.service.indexes import IndexRoutes, add_index_routes
from skillbus.gateway.service.knowledge.base import KnowledgeBaseRoutes, add_knowledge_base_routes
from skillbus.gateway.service.knowledge.items import KnowledgeRoutes, add_knowledge_routes
from skillbus.gateway.service.mcp_servers import McpServerRoutes, add_mcp_server_routes
from skillbus.gateway.service.models import ModelRoutes, add_model_routes
from skillbus.gateway.service.openai import OpenAiRoutes, add_openai_routes
from skillbus.gateway.service.providers import ProviderRoutes, add_provider_routes
from skillbus.gateway.service.runs import RunRoutes, add_run_routes
from skillbus.gateway.service.skill_versions import SkillVersionRoutes, add_skill_version_routes
from skillbus.gateway.service.skills import SkillRoutes, add_skill_routes
from skillbus.gateway.service.tools import ToolRoutes, add_tool_routes


@dataclass(frozen=True, slots=True)
class Routes:
    """The handlers of every path."""

    skills: SkillRoutes
    skill_versions: SkillVersionRoutes
    runs: RunRoutes
    tools: ToolRoutes
    knowledge_base: KnowledgeBaseRoutes
    knowledge: KnowledgeRoutes
    mcp_servers: McpServerRoutes
    audit: AuditRoutes
    providers: ProviderRoutes
    models: ModelRoutes
    indexes: IndexRoutes
    dead_letters: DeadLetterRoutes
    openai: OpenAiRoutes


@dataclass(frozen=True, slots=True)
class Importers:
    """What takes bodies of many objects."""

    tools: ToolImporter
    knowledge: KnowledgeImporter


def routes_over(caller: BusCaller, skills: SkillRoutes, runner: SkillRunner, importers: Importers) -> Routes:
    """The handlers, those that need nothing but the bus over `caller`."""
    return Routes(
        skills,
        SkillVersionRoutes(caller, skills.installer),
        RunRoutes(caller, runner),
        ToolRoutes(caller, importers.tools),
        KnowledgeBaseRoutes(caller, importers.knowledge, KnowledgeExporter(caller)),
        KnowledgeRoutes(caller),
        McpServerRoutes(caller),
        AuditRoutes(Auditor(caller)),
        ProviderRoutes(caller),
        ModelRoutes(caller),
        IndexRoutes(caller),
        DeadLetterRoutes(caller),
        OpenAiRoutes(caller, TextEmbedder(caller)),
    )


def build_router(routes: Routes, route_class: type[APIRoute]) -> APIRouter:
    """The routes under their paths. `route_class` reads the bodies."""
    router = APIRouter(route_class=route_class)
    to = DocumentedRouter(router)
    add_skill_version_routes(to, routes.skill_versions)
    add_skill_routes(to, routes.skills)
    add_run_routes(to, routes.runs)
    add_tool_routes(to, routes.tools)
    add_knowledge_base_routes(to, routes.knowledge_base)
    add_knowledge_routes(to, routes.knowledge)
    add_mcp_server_routes(to, routes.mcp_servers)
    add_audit_routes(to, routes.audit)
    add_provider_routes(to, routes.providers)
    add_model_routes(to, routes.models)
    add_index_routes(to, routes.indexes)
    add_dead_letter_routes(to, routes.dead_letters)
    add_openai_routes(router, routes.openai)
    return router
