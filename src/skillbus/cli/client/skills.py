"""Client for installed skills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from skillbus.cli.client.http_api import SKILLS, join_path
from skillbus.contracts.http import UploadedSkill
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillChecked, SkillHistory, SkillsListed

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_PAGE_SIZE: Final = 200
_ZIP: Final = "application/zip"


@dataclass(frozen=True, slots=True)
class SkillsClient:
    """Each method is one request, except `list_skills`."""

    connection: ApiConnection

    async def install_skill(self, filename: str, package: bytes | BinaryIO) -> UploadedSkill:
        """Upload a package and install it."""
        files = {"package": (filename, package, _ZIP)}
        return await self.connection.request(UploadedSkill, "POST", SKILLS, files=files, data=self.connection.scope)

    async def check_package(self, filename: str, package: bytes) -> SkillChecked:
        """Validate a package without installing it."""
        files = {"package": (filename, package, _ZIP)}
        path = f"{SKILLS}/check"
        return await self.connection.request(SkillChecked, "POST", path, files=files, data=self.connection.scope)

    async def list_skills(self, filters: Mapping[str, str] | None = None) -> tuple[Skill, ...]:
        """Return all installed skills that match the filters, page after page."""
        pages = await self.connection.list_pages(
            SkillsListed, SKILLS, filters or {}, lambda page: (len(page.skills), page.next), page_size=_PAGE_SIZE
        )
        return tuple(skill for page in pages for skill in page.skills)

    async def get_skill(self, name: str) -> Skill:
        return await self.connection.request(Skill, "GET", join_path(SKILLS, name), params=self.connection.scope)

    async def remove_skill(self, name: str) -> None:
        await self.connection.send("DELETE", join_path(SKILLS, name), params=self.connection.scope)

    async def list_versions(self, name: str) -> SkillHistory:
        """Return the packages installed under this name, the current one first."""
        path = join_path(SKILLS, name, "history")
        return await self.connection.request(SkillHistory, "GET", path, params=self.connection.scope)

    async def roll_back_skill(self, name: str, content_digest: str | None) -> Skill:
        """Return to an earlier package; without a digest, to the one before the current one."""
        body = {} if content_digest is None else {"content_digest": content_digest}
        path = join_path(SKILLS, name, "rollback")
        return await self.connection.request(Skill, "POST", path, params=self.connection.scope, json=body)

    async def change_state(self, name: str, step: str) -> Skill:
        """Apply `pin`, `unpin`, `enable` or `disable` to a skill."""
        path = join_path(SKILLS, name, step)
        return await self.connection.request(Skill, "POST", path, params=self.connection.scope)

    async def approve_network(self, name: str, approved: Sequence[str]) -> Skill:
        """Replace the network places that runs of this skill may reach."""
        body = {"approved": list(approved)}
        path = join_path(SKILLS, name, "network")
        return await self.connection.request(Skill, "PUT", path, params=self.connection.scope, json=body)
