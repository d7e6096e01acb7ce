"""Pages of learning: files to learn from, jobs, and what a job found."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field

from skillbus.contracts.learner.knowledge import KnowledgeId
from skillbus.contracts.learner.learned import LearnedKind, LogLevel, ReportPart, SuiteOutcome
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_REPORT,
    LIST_LEARNING_JOBS,
    LIST_LEARNING_SOURCES,
    MAX_FILES,
    GetLearningReport,
    LearningInputKind,
    LearningJob,
    LearningPhase,
    LearningSource,
    LearningStatus,
    LearningTask,
    ListLearningJobs,
    ListLearningSources,
)
from skillbus.contracts.learner.proposals import ProposalKind
from skillbus.contracts.message import ProjectMessage
from skillbus.gateway.domain.learning.job_follower import ENDED
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.learning import JobInPath
from skillbus.gateway.service.pages.part_answers import get_part
from skillbus.gateway.service.pages.rendering import render_markdown_page, render_page

LEARNING_PAGE: Final = "/learning"
_JOBS: Final = 30
_ENTRIES: Final = {ReportPart.ITEMS: 20, ReportPart.TEMPLATES: 100, ReportPart.FILES: 200, ReportPart.SUITES: 20}
"""Most entries of a page."""
_SOURCES: Final = 200
_PHASES: Final = {
    LearningPhase.WAITING: "Waiting for its turn",
    LearningPhase.FETCHING: "Fetching the files",
    LearningPhase.READING: "Reading the files",
    LearningPhase.REFINING: "A chat model reads what was found",
    LearningPhase.STORING: "Comparing with what is known",
    LearningPhase.ENDED: "Finished",
}
_INPUTS: Final = {
    LearningInputKind.FILES: "Logs and test reports",
    LearningInputKind.LOGS: "Logs and traffic only",
    LearningInputKind.TESTS: "Test reports only",
}
_KINDS: Final = {
    LearnedKind.INCIDENT: "Failures in logs",
    LearnedKind.REGRESSION: "Broken tests and fixes",
    LearnedKind.FLAKY: "Flaky tests",
    LearnedKind.RULE: "Rules of an interface",
    LearnedKind.CONFIG: "Settings",
    LearnedKind.ENVIRONMENT: "Faults of the environment",
    LearnedKind.PREEXISTING: "Tests that never passed",
}
_PROPOSALS: Final = {
    ProposalKind.ADD: "new",
    ProposalKind.REINFORCE: "known already",
    ProposalKind.UPDATE: "changes a waiting item",
    ProposalKind.SUPERSEDE: "would replace a known item",
    ProposalKind.CONFLICT: "contradicts a known item",
    ProposalKind.SUPPRESS: "rejected before",
}
_SEVERE: Final = (LogLevel.ERROR, LogLevel.FATAL)
_SIGNS: Final = {
    SuiteOutcome.PASSED: "✓",
    SuiteOutcome.FAILED: "✗",
    SuiteOutcome.BOTH: "±",
    SuiteOutcome.SKIPPED: "–",
    SuiteOutcome.ABSENT: "·",
}


class LearningPageQuery(ProjectMessage):
    """Query for one page of jobs."""

    status: LearningStatus | None = None
    what: LearningInputKind | None = None
    source: LearningSource | None = None
    task: LearningTask | None = None
    after: KnowledgeId | None = None


class FindingsQuery(ProjectMessage):
    """Query for one page of a job's report."""

    part: ReportPart = ReportPart.ITEMS
    kind: LearnedKind | None = None
    after: int = Field(default=0, ge=0)
    repeated: bool = False
    """True after an upload of files that were learned from before."""


@dataclass(frozen=True, slots=True)
class LearningPages:
    """Handlers of the pages of learning."""

    caller: BusCaller

    async def show_list(self, request: Request, page: Annotated[LearningPageQuery, Query()]) -> Response:
        """Show the form for files, one page of jobs, and the sources that are switched off."""
        wanted = ListLearningJobs(**page.model_dump(), limit=_JOBS)
        listed, sources = await asyncio.gather(
            get_part(self.caller.call(LIST_LEARNING_JOBS, wanted)), get_part(self._list_sources(page.project))
        )
        context = {
            "listed": listed.value,
            "sources": sources.value or (),
            "problem": listed.problem or sources.problem,
            "query": page,
            "is_filtered": page != LearningPageQuery(project=page.project),
            "statuses": tuple(LearningStatus),
            "max_files": MAX_FILES,
            **_describe_jobs(),
        }
        return render_page(request, "learning/list.html", context, project=page.project)

    async def show_job(self, request: Request, job_id: JobInPath, page: Annotated[FindingsQuery, Query()]) -> Response:
        """Show a job with its progress, and one page of what it found."""
        wanted = GetLearningReport(
            project=page.project,
            id=job_id,
            part=page.part,
            kind=page.kind,
            after=page.after,
            limit=_ENTRIES[page.part],
        )
        report, sources = await asyncio.gather(
            self.caller.call(GET_LEARNING_REPORT, wanted), self._list_sources(page.project)
        )
        context = {
            "report": report,
            "job": report.job,
            "query": page,
            "is_on": report.job.source not in sources,
            "kinds": _KINDS,
            "proposals": _PROPOSALS,
            "severe": _SEVERE,
            "signs": _SIGNS,
            **_describe_jobs(),
        }
        return await render_markdown_page(request, "learning/job.html", context, project=page.project)

    async def _list_sources(self, project: str) -> tuple[str, ...]:
        """Return the sources that are switched off."""
        found = await self.caller.call(LIST_LEARNING_SOURCES, ListLearningSources(project=project, limit=_SOURCES))
        return tuple(switch.source for switch in found.sources)


def _describe_jobs() -> dict[str, object]:
    """Return what the templates need to show any job."""
    return {
        "phases": _PHASES,
        "inputs": _INPUTS,
        "is_open": lambda job: job.status not in ENDED,
        "measure_seconds": _measure_seconds,
    }


def _measure_seconds(job: LearningJob) -> float | None:
    """Return how long a job took; None before its end."""
    if job.started_at is None or job.ended_at is None:
        return None
    return (job.ended_at - job.started_at).total_seconds()
