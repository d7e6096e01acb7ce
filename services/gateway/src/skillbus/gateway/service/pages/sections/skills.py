"""Pages of skills: list with installation of a package, and one skill with its document, files, versions and runs."""

import asyncio
import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import StringConstraints

from skillbus.common.tools.skill_files import SkillFiles
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.skills import GET_SKILL, GET_SKILL_HISTORY, LIST_SKILLS, ListSkills, SkillSelector
from skillbus.contracts.learner.knowledge import CONTENT_CHARACTERS
from skillbus.contracts.message import DEFAULT_PROJECT, WITHOUT_NUL, ProjectMessage
from skillbus.contracts.sandbox.run_history import LIST_RUNS, ListRuns
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery, SkillInPath
from skillbus.gateway.service.pages.part_answers import get_part
from skillbus.gateway.service.pages.rendering import render_markdown_page, render_page
from skillbus.gateway.service.pages.sections.runs import STATE_NAMES

SKILLS_PAGE: Final = "/skills"
_PAGE_SIZE: Final = 50
_RUNS: Final = 5
_FRONT_MATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?\r?\n---[ \t]*(\r?\n|\Z)", re.DOTALL)


class SkillPageQuery(ProjectMessage):
    """Query for one page of the installed skills."""

    enabled: bool | None = None
    text: Annotated[str, StringConstraints(max_length=200), WITHOUT_NUL] | None = None
    after: Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL] | None = None


@dataclass(frozen=True, slots=True)
class SkillPages:
    """Handlers of the pages of skills."""

    caller: BusCaller
    files: SkillFiles
    package_bytes: int
    """Largest package that can be installed."""

    async def show_list(self, request: Request, page: Annotated[SkillPageQuery, Query()]) -> Response:
        """Show one page of the installed skills, and where to drop a package."""
        wanted = ListSkills(
            project=page.project, limit=_PAGE_SIZE, after=page.after, enabled=page.enabled, text=page.text or None
        )
        context = {
            "listed": await get_part(self.caller.call(LIST_SKILLS, wanted)),
            "query": page,
            "package_bytes": self.package_bytes,
        }
        return render_page(request, "skills/list.html", context, project=page.project)

    async def show_skill(
        self, request: Request, name: SkillInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a skill: its findings, document, files, versions, and its latest runs."""
        selector = SkillSelector(name=name, project=project)
        skill = await self.caller.call(GET_SKILL, selector)
        history, package, runs = await asyncio.gather(
            get_part(self.caller.call(GET_SKILL_HISTORY, selector)),
            get_part(self.files.read_overview(project, name)),
            get_part(self.caller.call(LIST_RUNS, ListRuns(project=project, skill=name, limit=_RUNS))),
        )
        document = "" if package.value is None else _read_document(package.value.document)
        context = {
            "skill": skill,
            "history": history,
            "package": package,
            "document": document[:CONTENT_CHARACTERS],
            "is_cut": len(document) > CONTENT_CHARACTERS,
            "runs": runs,
            "state_names": STATE_NAMES,
            "can_administrate": get_caller(request.scope).role.includes(Role.ADMIN),
        }
        return await render_markdown_page(request, "skills/skill.html", context, project=project)


def _read_document(document: bytes) -> str:
    """Return the Markdown of a SKILL.md without its front matter, which the page shows as fields."""
    return _FRONT_MATTER.sub("", document.decode(errors="replace"), count=1)
