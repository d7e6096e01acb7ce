"""Skills, their runs, and how everything is."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import File, Form, Path, Query, Response, UploadFile
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from skillbus.contracts import indexer, sandbox
from skillbus.contracts.endpoint import Health
from skillbus.contracts.errors import ANY_REQUEST, ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Empty, Message, Project, SkillName
from skillbus.gateway.domain.packages import Package, PackageInstaller, UploadedSkill, uploaded_skill
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.readiness import Readiness, SystemStatus
from skillbus.gateway.domain.runs import RunBody, RunReply, SkillRunner
from skillbus.gateway.service.documented import NO_ERRORS, WITH_BODY, Documented, DocumentedRouter

NameInPath = Annotated[SkillName, Path()]
ProjectInQuery = Annotated[Project, Query()]


class Description(Message):
    """A skill's new description."""

    description: indexer.NewDescription


class Alive(Message):
    """The gateway's loop runs."""

    status: str = "ok"


class FileResponse(Response):
    """Bytes to be saved: no browser shows or runs them."""

    media_type = "application/octet-stream"


class MetricsResponse(Response):
    """Metrics in Prometheus's text format."""

    media_type = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class SkillRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    installer: PackageInstaller
    runner: SkillRunner
    readiness: Readiness
    registry: CollectorRegistry

    async def install_skill(
        self, package: Annotated[UploadFile, File()], project: Annotated[Project, Form()] = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Install a skill package (a zip with a SKILL.md), or update the skill of its name; `outcome` says which."""
        return await self.installer.install(Package(package.file, package.size or 0), project)

    async def list_skills(self, page: Annotated[indexer.ListSkills, Query()]) -> indexer.SkillsListed:
        """A page of the installed skills, by name. `next` is the `after` of the next page.

        `tag`, `enabled` and `text`, which is in the name or the description, leave out others.
        """
        return await self.caller.call(indexer.LIST_SKILLS, page)

    async def get_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> indexer.Skill:
        """One installed skill."""
        return await self.caller.call(indexer.GET_SKILL, indexer.NameSkill(name=name, project=project))

    async def update_skill(
        self, name: NameInPath, body: Description, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Change a skill's description. All else of a skill changes by installing a new package."""
        request = indexer.UpdateSkill(name=name, project=project, description=body.description)
        return uploaded_skill(await self.caller.call(indexer.UPDATE_SKILL, request))

    async def uninstall_skill(
        self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> indexer.SkillUninstalled:
        """Remove a skill: folder, vectors, package and catalogue entry."""
        return await self.caller.call(indexer.UNINSTALL_SKILL, indexer.NameSkill(name=name, project=project))

    async def run_skill(self, name: NameInPath, body: RunBody, project: ProjectInQuery = DEFAULT_PROJECT) -> RunReply:
        """Run an action of a skill in the sandbox. A run that fails is an answer too: see `status`."""
        return await self.runner.run(name, project, body)

    async def get_artifact(self, run_id: str, name: str) -> Response:
        """A file that a run left. Whoever knows the run's id, which cannot be guessed, can fetch it."""
        data = await self.runner.artifact(run_id, name)
        file_name = quote(name.rsplit("/", 1)[-1], safe="")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{file_name}",
            "X-Content-Type-Options": "nosniff",
        }
        return FileResponse(data, headers=headers)

    async def get_limits(self) -> sandbox.SandboxLimits:
        """The limits of every run, and how runs are isolated here."""
        return await self.caller.call(sandbox.GET_LIMITS, Empty())

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
    to.add("POST", "/api/skills", routes.install_skill, (*indexer.INSTALL_SKILL.errors, *WITH_BODY), status=201)
    to.add("GET", "/api/skills", routes.list_skills, indexer.LIST_SKILLS.errors)
    to.add("GET", "/api/skills/{name}", routes.get_skill, indexer.GET_SKILL.errors)
    to.add("PATCH", "/api/skills/{name}", routes.update_skill, (*indexer.UPDATE_SKILL.errors, *WITH_BODY))
    to.add("DELETE", "/api/skills/{name}", routes.uninstall_skill, indexer.UNINSTALL_SKILL.errors)
    to.add("POST", "/api/skills/{name}/run", routes.run_skill, (*sandbox.RUN_SKILL.errors, *WITH_BODY))
    artifact_errors = (*ANY_REQUEST, ErrorCode.NOT_FOUND, *WITH_BODY)
    to.add(
        "GET", "/api/runs/{run_id}/artifacts/{name:path}", routes.get_artifact, artifact_errors, response=FileResponse
    )
    to.add("GET", "/api/limits", routes.get_limits, sandbox.GET_LIMITS.errors)
    to.add("GET", "/api/status", routes.get_status, NO_ERRORS)
    to.add("GET", "/metrics", routes.metrics, NO_ERRORS, response=MetricsResponse)
    to.add_probe("/healthz", routes.healthz, {})
    to.add_probe("/readyz", routes.readyz, _NOT_READY)
