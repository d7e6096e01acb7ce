"""The routes: decode, one call, encode."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Path, Query, Response, UploadFile
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse

from skillbus.contracts import indexer, retriever, sandbox
from skillbus.contracts.endpoint import Health
from skillbus.contracts.errors import ANY_REQUEST, ERROR_CLASSES, ErrorCode
from skillbus.contracts.message import DEFAULT_PROJECT, Empty, Message, Project, SkillName
from skillbus.gateway.domain.packages import Package, PackageInstaller, UploadedSkill, uploaded_skill
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.problem import MEDIA_TYPE
from skillbus.gateway.domain.readiness import Readiness, SystemStatus
from skillbus.gateway.domain.runs import RunBody, RunReply, SkillRunner

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
class Routes:
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
        """A page of the installed skills, by name. `next` is the `after` of the next page."""
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

    async def search_tools(self, body: retriever.SearchTools) -> retriever.ToolsFound:
        """Find the few tools that fit a request, in any language."""
        return await self.caller.call(retriever.SEARCH_TOOLS, body)

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
        """Whether every service that is needed is ready; a sandbox that cannot isolate is reported and no obstacle."""
        health = await self.readiness.health()
        response.status_code = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return health

    async def metrics(self) -> Response:
        """Metrics of this process for Prometheus."""
        return MetricsResponse(generate_latest(self.registry))


Errors = tuple[ErrorCode, ...]
Documented = dict[int | str, dict[str, object]]
_NO_ERRORS: Final[Errors] = ()
_BODY: Final[Errors] = (ErrorCode.PAYLOAD_TOO_LARGE,)
_NOT_READY: Final[Documented] = {503: {"model": Health, "description": "Something is missing; `checks` says what."}}


def build_router(routes: Routes, route_class: type[APIRoute]) -> APIRouter:
    """The routes under their paths, with the errors that each can answer. `route_class` reads the bodies."""
    router = APIRouter(route_class=route_class)

    def add(
        method: str,
        path: str,
        handler: Callable[..., object],
        errors: Errors,
        *,
        status: int = 200,
        response: type[Response] = JSONResponse,
    ) -> None:
        router.add_api_route(
            path,
            handler,
            methods=[method],
            status_code=status,
            response_class=response,
            responses=_problems(errors),
            operation_id=handler.__name__,
        )

    add("POST", "/api/skills", routes.install_skill, (*indexer.INSTALL_SKILL.errors, *_BODY), status=201)
    add("GET", "/api/skills", routes.list_skills, indexer.LIST_SKILLS.errors)
    add("GET", "/api/skills/{name}", routes.get_skill, indexer.GET_SKILL.errors)
    add("PATCH", "/api/skills/{name}", routes.update_skill, (*indexer.UPDATE_SKILL.errors, *_BODY))
    add("DELETE", "/api/skills/{name}", routes.uninstall_skill, indexer.UNINSTALL_SKILL.errors)
    add("POST", "/api/skills/{name}/run", routes.run_skill, (*sandbox.RUN_SKILL.errors, *_BODY))
    artifact_errors = (*ANY_REQUEST, ErrorCode.NOT_FOUND, *_BODY)
    add("GET", "/api/runs/{run_id}/artifacts/{name:path}", routes.get_artifact, artifact_errors, response=FileResponse)
    add("POST", "/api/tools/search", routes.search_tools, (*retriever.SEARCH_TOOLS.errors, *_BODY))
    add("GET", "/api/limits", routes.get_limits, sandbox.GET_LIMITS.errors)
    add("GET", "/api/status", routes.get_status, _NO_ERRORS)
    add("GET", "/metrics", routes.metrics, _NO_ERRORS, response=MetricsResponse)
    _add_probe(router, "/healthz", routes.healthz, {})
    _add_probe(router, "/readyz", routes.readyz, _NOT_READY)
    return router


def _add_probe(router: APIRouter, path: str, handler: Callable[..., object], also: Documented) -> None:
    """A probe, for those that ask with HEAD too."""
    router.add_api_route(path, handler, methods=["GET"], responses=also, operation_id=handler.__name__)
    router.add_api_route(path, handler, methods=["HEAD"], include_in_schema=False)


def _problems(errors: Errors) -> Documented:
    """How the documentation lists the errors of a route: by status, with the codes that have it."""
    codes = sorted({*errors, ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN}, key=lambda code: ERROR_CLASSES[code].status)
    documented: Documented = {
        status: _problem(", ".join(f"`{code}`: {ERROR_CLASSES[code].title}" for code in of_status))
        for status, of_status in groupby(codes, key=lambda code: ERROR_CLASSES[code].status)
    }
    documented["default"] = _problem("Any other error is a problem document too.")
    return documented


def _problem(description: str) -> dict[str, object]:
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {"description": description, "content": {MEDIA_TYPE: schema}}
