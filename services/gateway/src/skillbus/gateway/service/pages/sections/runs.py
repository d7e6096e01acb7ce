"""Pages of the runs of skills: list, and one run with its limits, what it used, and its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import DEFAULT_PROJECT, ProjectMessage, SkillName
from skillbus.contracts.sandbox.run_history import GET_RUN, LIST_RUNS, ListRuns, RunSelector, RunState
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import ProjectInQuery
from skillbus.gateway.service.pages.rendering import render_page
from skillbus.gateway.service.runs.skill_runs import RunInPath

RUNS_PAGE: Final = "/runs"
_PAGE_SIZE: Final = 50
STATE_NAMES: Final[Mapping[RunState, str]] = {
    RunState.RUNNING: "running",
    RunState.OK: "succeeded",
    RunState.FAILED: "failed",
    RunState.TIMEOUT: "ended at its time limit",
    RunState.CPU: "ended at its CPU limit",
    RunState.MEMORY: "ended at its memory limit",
    RunState.OUTPUT: "ended at its output limit",
    RunState.INODES: "ended: too many files",
    RunState.CANCELLED: "cancelled",
    RunState.KILLED: "killed",
    RunState.NOT_RUN: "not started",
    RunState.LOST: "lost",
}
"""Names of the states, for people."""
_TIME_NAMES: Final = {"15": "last 15 minutes", "60": "last hour", "360": "last 6 hours"}


class RunPageQuery(ProjectMessage):
    """Query for one page of runs."""

    skill: SkillName | None = None
    state: RunState | None = None
    within: Literal["15", "60", "360"] | None = None
    """Only runs that began within these last minutes."""
    after: str | None = Field(default=None, pattern=r"^[0-9]{1,18}$")


@dataclass(frozen=True, slots=True)
class RunPages:
    """Handlers of the pages of runs."""

    caller: BusCaller

    async def show_list(self, request: Request, page: Annotated[RunPageQuery, Query()]) -> Response:
        """Show one page of runs, newest first. The filters are in the address."""
        filters = page.model_dump(include={"project", "skill", "state", "after"})
        since = None if page.within is None else datetime.now(UTC) - timedelta(minutes=int(page.within))
        wanted = ListRuns(limit=_PAGE_SIZE, since=since, **filters)
        context = {
            "listed": await self.caller.call(LIST_RUNS, wanted),
            "query": page,
            "state_names": STATE_NAMES,
            "time_names": _TIME_NAMES,
        }
        return render_page(request, "runs/list.html", context, project=page.project)

    async def show_run(
        self, request: Request, run_id: RunInPath, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Show a run: how it ended, its limits beside what it used, and its files."""
        context = {
            "run": await self.caller.call(GET_RUN, RunSelector(project=project, run_id=run_id)),
            "state_names": STATE_NAMES,
            "can_run": get_caller(request.scope).role.includes(Role.RUNNER),
        }
        return render_page(request, "runs/run.html", context, project=project)
