"""Skills: installation, updates, history, pins and network approval."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import File, Form, Query, Response, UploadFile
from pydantic import Field

from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.http import UploadedSkill
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    CHECK_SKILL,
    GET_SKILL,
    GET_SKILL_HISTORY,
    INSTALL_SKILL,
    LIST_SKILLS,
    PIN_SKILL,
    ROLL_BACK_SKILL,
    UNINSTALL_SKILL,
    UPDATE_SKILL,
    ApproveNetwork,
    ListSkills,
    NewDescription,
    PinSkill,
    RollBackSkill,
    SkillChecked,
    SkillHistory,
    SkillSelector,
    SkillsListed,
    SkillUninstalled,
    UpdateSkill,
)
from skillbus.contracts.indexer.tools import SET_TOOL_STATE, SetToolState
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project
from skillbus.contracts.network import PLACES_MAX, NetworkPlace
from skillbus.gateway.domain.package_installer import PackageInstaller, UploadedPackage, make_uploaded_skill
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter, ProjectInQuery, SkillInPath

_SKILLS: Final = "/api/skills"
_SKILL: Final = f"{_SKILLS}/{{name}}"
PackageInForm = Annotated[UploadFile, File(description="Zip with a SKILL.md.")]
ProjectInForm = Annotated[Project, Form()]


class DescriptionBody(Message):
    """New description of a skill."""

    description: NewDescription


class RollBackBody(Message):
    """Target of a rollback."""

    content_digest: str | None = None
    """Package to return to, from the skill's history. Absent means the one before the current package."""


class NetworkBody(Message):
    """Network places that the runs of a skill may reach."""

    approved: tuple[NetworkPlace, ...] = Field(max_length=PLACES_MAX)
    """Approved places, each one from the skill's `network`. An empty list approves none."""


class SkillFileResponse(Response):
    """Bytes to save. Browsers neither display nor execute them."""

    media_type = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class SkillRoutes:
    """Handlers of skills."""

    caller: BusCaller
    installer: PackageInstaller
    files: SkillFiles

    async def install_skill(self, package: PackageInForm, project: ProjectInForm = DEFAULT_PROJECT) -> UploadedSkill:
        """Install a skill package, or update the skill with the same name. `outcome` says which."""
        return await self.installer.install_package(UploadedPackage(package.file, package.size or 0), project)

    async def check_skill(self, package: PackageInForm, project: ProjectInForm = DEFAULT_PROJECT) -> SkillChecked:
        """Validate a skill package without installing it."""
        return await self.installer.check_package(UploadedPackage(package.file, package.size or 0), project)

    async def list_skills(self, page: Annotated[ListSkills, Query()]) -> SkillsListed:
        """List one page of the installed skills, ordered by name. `next` is the `after` of the next page."""
        return await self.caller.call(LIST_SKILLS, page)

    async def get_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Return one installed skill."""
        return await self.caller.call(GET_SKILL, SkillSelector(name=name, project=project))

    async def update_skill(
        self, name: SkillInPath, body: DescriptionBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Change the description of a skill. To change anything else, install a new package."""
        request = UpdateSkill(name=name, project=project, description=body.description)
        return make_uploaded_skill(await self.caller.call(UPDATE_SKILL, request))

    async def uninstall_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> SkillUninstalled:
        """Uninstall a skill: delete its folder, vectors, package and catalogue entry."""
        return await self.caller.call(UNINSTALL_SKILL, SkillSelector(name=name, project=project))

    async def get_skill_history(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> SkillHistory:
        """List the packages of a skill, the current one first."""
        return await self.caller.call(GET_SKILL_HISTORY, SkillSelector(name=name, project=project))

    async def roll_back_skill(
        self, name: SkillInPath, body: RollBackBody | None = None, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Roll a skill back to an earlier package; without a body, to the one before the current package."""
        digest = None if body is None else body.content_digest
        request = RollBackSkill(name=name, project=project, content_digest=digest)
        return make_uploaded_skill(await self.caller.call(ROLL_BACK_SKILL, request))

    async def approve_network(
        self, name: SkillInPath, body: NetworkBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Skill:
        """Set the network places that the runs of a skill may reach."""
        request = ApproveNetwork(name=name, project=project, approved=body.approved)
        return await self.caller.call(APPROVE_NETWORK, request)

    async def pin_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Pin a skill to its current package. Other packages are refused."""
        return await self.caller.call(PIN_SKILL, PinSkill(name=name, project=project, pinned=True))

    async def unpin_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Remove the pin of a skill, so that every package is accepted again."""
        return await self.caller.call(PIN_SKILL, PinSkill(name=name, project=project, pinned=False))

    async def enable_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Enable a disabled skill: it is found and run again."""
        return await self._set_state(name, project, enabled=True)

    async def disable_skill(self, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Disable a skill: it stays installed but is neither found nor run."""
        return await self._set_state(name, project, enabled=False)

    async def get_skill_file(self, name: SkillInPath, path: str, project: ProjectInQuery = DEFAULT_PROJECT) -> Response:
        """Return a file of a skill, such as SKILL.md, as it is in the current package."""
        content = await self.files.read_file(project, name, path)
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rsplit('/', 1)[-1], safe='')}"}
        return SkillFileResponse(content, headers=headers)

    async def _set_state(self, name: str, project: str, *, enabled: bool) -> Skill:
        state = SetToolState(project=project, id=f"skill:{name}", enabled=enabled)
        await self.caller.call(SET_TOOL_STATE, state)
        return await self.caller.call(GET_SKILL, SkillSelector(name=name, project=project))


def add_skill_routes(router: DocumentedRouter, routes: SkillRoutes) -> None:
    """Add the routes of skills."""
    state_errors = (*SET_TOOL_STATE.errors, *GET_SKILL.raises)
    rollback: dict[str, object] = {"content_digest": "0" * 64}
    approved: dict[str, object] = {"approved": ["api.example.org:443"]}
    router.add("POST", f"{_SKILLS}/check", Role.EDITOR, routes.check_skill, CHECK_SKILL.errors)
    file_errors = (*GET_SKILL.errors, ErrorCode.NOT_FOUND, ErrorCode.PAYLOAD_TOO_LARGE)
    router.add(
        "GET",
        f"{_SKILL}/files/{{path:path}}",
        Role.READER,
        routes.get_skill_file,
        file_errors,
        response=SkillFileResponse,
    )
    router.add("GET", f"{_SKILL}/history", Role.READER, routes.get_skill_history, GET_SKILL_HISTORY.errors)
    router.add(
        "POST", f"{_SKILL}/rollback", Role.EDITOR, routes.roll_back_skill, ROLL_BACK_SKILL.errors, example=rollback
    )
    router.add("POST", f"{_SKILL}/pin", Role.EDITOR, routes.pin_skill, PIN_SKILL.errors)
    router.add("POST", f"{_SKILL}/unpin", Role.EDITOR, routes.unpin_skill, PIN_SKILL.errors)
    router.add("PUT", f"{_SKILL}/network", Role.ADMIN, routes.approve_network, APPROVE_NETWORK.errors, example=approved)
    router.add("POST", f"{_SKILL}/enable", Role.EDITOR, routes.enable_skill, state_errors)
    router.add("POST", f"{_SKILL}/disable", Role.EDITOR, routes.disable_skill, state_errors)
    router.add("POST", _SKILLS, Role.EDITOR, routes.install_skill, INSTALL_SKILL.errors, status=201)
    router.add("GET", _SKILLS, Role.READER, routes.list_skills, LIST_SKILLS.errors)
    router.add("GET", _SKILL, Role.READER, routes.get_skill, GET_SKILL.errors)
    described = {"description": "Writes a commit message for the staged changes."}
    router.add("PATCH", _SKILL, Role.EDITOR, routes.update_skill, UPDATE_SKILL.errors, example=described)
    router.add("DELETE", _SKILL, Role.EDITOR, routes.uninstall_skill, UNINSTALL_SKILL.errors)
