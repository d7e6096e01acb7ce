"""The life of a skill: checked before it is installed, its earlier packages, held at one, disabled and enabled."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import File, Form, Path, Query, UploadFile
from pydantic import Field

from skillbus.contracts.http import UploadedSkill
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import (
    APPROVE_NETWORK,
    CHECK_SKILL,
    GET_SKILL,
    GET_SKILL_HISTORY,
    PIN_SKILL,
    ROLL_BACK_SKILL,
    ApproveNetwork,
    PinSkill,
    RollBackSkill,
    SkillChecked,
    SkillHistory,
    SkillSelector,
)
from skillbus.contracts.indexer.tools import SET_TOOL_STATE, SetToolState
from skillbus.contracts.message import DEFAULT_PROJECT, Message, Project, SkillName
from skillbus.contracts.network import PLACES_MAX, NetworkPlace
from skillbus.gateway.domain.package_installer import Package, PackageInstaller, uploaded_skill
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import WITH_BODY, DocumentedRouter

_SKILL: Final = "/api/skills/{name}"
NameInPath = Annotated[SkillName, Path()]
ProjectInQuery = Annotated[Project, Query()]


class RollBackBody(Message):
    """Which package a skill goes back to."""

    content_digest: str | None = None
    """Of its history; the one before the current if absent."""


class NetworkBody(Message):
    """What the runs of a skill may reach."""

    approved: tuple[NetworkPlace, ...] = Field(max_length=PLACES_MAX)
    """Of the places in the skill's `network`; an empty list closes the network to it."""


@dataclass(frozen=True, slots=True)
class SkillVersionRoutes:
    """The handlers, over what they need."""

    caller: BusCaller
    installer: PackageInstaller

    async def check_skill(
        self, package: Annotated[UploadFile, File()], project: Annotated[Project, Form()] = DEFAULT_PROJECT
    ) -> SkillChecked:
        """What the validation says of a package, to the letter and well enough to be installed. It is not installed."""
        return await self.installer.check(Package(package.file, package.size or 0), project)

    async def get_skill_history(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> SkillHistory:
        """The packages that were installed under the name of a skill, the current one first."""
        return await self.caller.call(GET_SKILL_HISTORY, SkillSelector(name=name, project=project))

    async def roll_back_skill(
        self, name: NameInPath, body: RollBackBody | None = None, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> UploadedSkill:
        """Go back to an earlier package of a skill: the one before, without a body."""
        digest = None if body is None else body.content_digest
        request = RollBackSkill(name=name, project=project, content_digest=digest)
        return uploaded_skill(await self.caller.call(ROLL_BACK_SKILL, request))

    async def approve_network(
        self, name: NameInPath, body: NetworkBody, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Skill:
        """Let the runs of a skill reach these places, of those that it wants, and no other."""
        request = ApproveNetwork(name=name, project=project, approved=body.approved)
        return await self.caller.call(APPROVE_NETWORK, request)

    async def pin_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Hold a skill at the package that is installed now: another one is refused."""
        request = PinSkill(name=name, project=project, pinned=True)
        return await self.caller.call(PIN_SKILL, request)

    async def unpin_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Have any package of a skill accepted again."""
        request = PinSkill(name=name, project=project, pinned=False)
        return await self.caller.call(PIN_SKILL, request)

    async def enable_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Have a disabled skill found and run again."""
        return await self._set_state(name, project, enabled=True)

    async def disable_skill(self, name: NameInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> Skill:
        """Have a skill neither found nor run; it stays installed."""
        return await self._set_state(name, project, enabled=False)

    async def _set_state(self, name: str, project: str, *, enabled: bool) -> Skill:
        state = SetToolState(project=project, id=f"skill:{name}", enabled=enabled)
        await self.caller.call(SET_TOOL_STATE, state)
        return await self.caller.call(GET_SKILL, SkillSelector(name=name, project=project))


def add_skill_version_routes(to: DocumentedRouter, routes: SkillVersionRoutes) -> None:
    """Put them under their paths."""
    back_errors = (*ROLL_BACK_SKILL.errors, *WITH_BODY)
    state_errors = (*SET_TOOL_STATE.errors, *GET_SKILL.raises)
    back: dict[str, object] = {"content_digest": "0" * 64}
    to.add("POST", "/api/skills/check", routes.check_skill, (*CHECK_SKILL.errors, *WITH_BODY))
    to.add("GET", f"{_SKILL}/history", routes.get_skill_history, GET_SKILL_HISTORY.errors)
    to.add("POST", f"{_SKILL}/rollback", routes.roll_back_skill, back_errors, example=back)
    to.add("POST", f"{_SKILL}/pin", routes.pin_skill, PIN_SKILL.errors)
    to.add("POST", f"{_SKILL}/unpin", routes.unpin_skill, PIN_SKILL.errors)
    approve_errors = (*APPROVE_NETWORK.errors, *WITH_BODY)
    approved: dict[str, object] = {"approved": ["api.example.org:443"]}
    to.add("PUT", f"{_SKILL}/network", routes.approve_network, approve_errors, example=approved)
    to.add("POST", f"{_SKILL}/enable", routes.enable_skill, state_errors)
    to.add("POST", f"{_SKILL}/disable", routes.disable_skill, state_errors)
