"""Skills, and how everything is."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import File, Form, Path, Query, Response, UploadFile
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from skillbus.contracts.endpoint import Health
from skillbus.contracts.http import SystemStatus, UploadedSkill
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    GET_SKILL,
    INSTALL_SKILL,
    LIST_SKILLS,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    ListSkills,
    NewDescription,
    SkillSelector,
    SkillsListed,
    SkillUninstalled,
    UpdateSkill,
)
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project, SkillName
from skillbus.gateway.domain.package_installer import Package, PackageInstaller, uploaded_skill
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.service.documented_router import NO_ERRORS, WITH_BODY, Documented, DocumentedRouter

NameInPath = Annotated[SkillName, Path()]
ProjectInQuery = Annotated[Project, Query()]


class Description(Message):
    """A skill's new description."""

    description: NewDescription


class Alive(Message):
    """The gateway's loop runs."""

    status: str = "ok"


class MetricsResponse(Response):
    """Metrics in Prometheus's text format."""

    media_type = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class SkillRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    installer: PackageInstaller
    readiness: Readiness
    registry: CollectorRegistry

    async def install_skill(
        self, package: Annotated[UploadFile, File()], project: Annotated[Project, Form()] = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Install a skill package (a zip with a SKILL.md), or update the skill of its name; `outcome` says which."""
        return await self.installer.install(Package(package.file, package.size or 0), project)

    async def list_skills(self, page: Annotated[ListSkills, Query()]) -> SkillsListed:
        """A page of the installed skills, by name. `next` is the `after` of the next page.

        `tag`, `enabled` and `text`, which is in the name or the description, leave out others.
        """
        return await self.caller.call(LIST_SKILLS, page)

    async def get_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """One installed skill."""
        return await self.caller.call(GET_SKILL, SkillSelector(name=name, project=project))

    async def update_skill(
        self, name: NameInPath, body: Description, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Change a skill's description. All else of a skill changes by installing a new package."""
        request = UpdateSkill(name=name, project=project, description=body.description)
        return uploaded_skill(await self.caller.call(UPDATE_SKILL, request))

    async def uninstall_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> SkillUninstalled:
        """Remove a skill: folder, vectors, package and catalogue entry."""
        return await self.caller.call(UNINSTALL_SKILL, SkillSelector(name=name, project=project))

    async def get_status(self) -> SystemStatus:
        """How every service is, and what the indexer holds."""
        return await self.readiness.status()

    async def healthz(self) -> Alive:
        """Whether the gateway's loop runs."""
        return Alive()

    async def readyz(self, response: Response) -> Health:
        """Whether every service that is needed is ready.

        A sandbox that cannot isolate and an agent that is away are reported, and are no obstacle: the rest works.
        """
        health = await self.readiness.health()
        response.status_code = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return health

    async def metrics(self) -> Response:
        """Metrics of this process for Prometheus."""
        return MetricsResponse(generate_latest(self.registry))


_NOT_READY: Final[Documented] = {503: {"model": Health, "description": "Something is missing; `checks` says what."}}


def add_skill_routes(to: DocumentedRouter, routes: SkillRoutes) -> None:
    """Put them under their paths."""
    to.add("POST", "/api/skills", routes.install_skill, (*INSTALL_SKILL.errors, *WITH_BODY), status=201)
    to.add("GET", "/api/skills", routes.list_skills, LIST_SKILLS.errors)
    to.add("GET", "/api/skills/{name}", routes.get_skill, GET_SKILL.errors)
    to.add("PATCH", "/api/skills/{name}", routes.update_skill, (*UPDATE_SKILL.errors, *WITH_BODY))
    to.add("DELETE", "/api/skills/{name}", routes.uninstall_skill, UNINSTALL_SKILL.errors)
    to.add("GET", "/api/status", routes.get_status, NO_ERRORS)
    to.add("GET", "/metrics", routes.metrics, NO_ERRORS, response=MetricsResponse)
    to.add_probe("/healthz", routes.healthz, {})
    to.add_probe("/readyz", routes.readyz, _NOT_READY)
