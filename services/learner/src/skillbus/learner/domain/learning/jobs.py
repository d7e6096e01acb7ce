"""Jobs that learn from files: start, list and cancel them, and read their reports. Sources can be switched off."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from pydantic_core import to_json

from skillbus.common.paging import cut_page, measure_json
from skillbus.contracts.learner.learned import (
    LearnedFile,
    LearnedSuite,
    LearnedTemplate,
    ReportPart,
    ReportTotals,
)
from skillbus.contracts.learner.learning_jobs import (
    MAX_INLINE_BYTES,
    CancelLearning,
    GetLearningReport,
    LearningAdvanced,
    LearningCancelled,
    LearningFile,
    LearningJob,
    LearningJobSelector,
    LearningJobsListed,
    LearningPhase,
    LearningProgress,
    LearningReport,
    LearningSourcesListed,
    LearningStarted,
    LearningStatus,
    LearningSwitch,
    ListLearningJobs,
    ListLearningSources,
    SetLearningSource,
    StartLearning,
)
from skillbus.contracts.learner.proposals import ReportedItem
from skillbus.learner.domain.errors import UnfitError
from skillbus.learner.domain.item.values import generate_id
from skillbus.learner.domain.learning.ports import JobFiles, JobRecord, LearnedReport, ProgressFeed, SourceSwitches

_Entry = LearnedFile | ReportedItem | LearnedTemplate | LearnedSuite


def compute_digest(request: StartLearning) -> str:
    """Return the SHA-256 of what a job learns from. Names of files do not count."""
    contents = sorted(file.content.sha256.lower() for file in request.files)
    return sha256(to_json([request.source, request.context, contents])).hexdigest()


@dataclass(frozen=True, slots=True)
class LearningJobs:
    """Requests about jobs and sources. Every method raises LearnerError."""

    record: JobRecord
    switches: SourceSwitches
    files: JobFiles
    feed: ProgressFeed
    now: Callable[[], datetime]
    on_change: Callable[[], None]
    """Called after a job was queued or cancelled."""

    async def start_job(self, request: StartLearning) -> LearningStarted:
        """Queue a job, unless the project has learned from the same files, or its source is switched off."""
        _check_inline(request.files)
        if (reason := await self._find_obstacle(request)) is not None:
            await self.files.delete_files(request.files)
            return LearningStarted(skipped=reason)
        at = self.now()
        size_bytes = sum(file.content.size_bytes for file in request.files)
        job = LearningJob(
            id=generate_id(at),
            project=request.project,
            what=request.what,
            source=request.source,
            task=request.task,
            context=request.context,
            digest=compute_digest(request),
            status=LearningStatus.QUEUED,
            progress=LearningProgress(total_files=len(request.files), total_bytes=size_bytes),
            created_at=at,
            actor=request.actor,
        )
        recorded = await self.record.add_job(job, request.files)
        if recorded.is_repeated:
            await self._delete_unused(recorded.job, request.files)
        else:
            self.on_change()
        return LearningStarted(job=recorded.job, repeated=recorded.is_repeated)

    async def get_job(self, request: LearningJobSelector) -> LearningJob:
        return await self.record.get_job(request.project, request.id)

    async def list_jobs(self, request: ListLearningJobs) -> LearningJobsListed:
        found = await self.record.list_jobs(request)
        jobs = cut_page(found[: request.limit], measure_json)
        more = len(jobs) < len(found)
        return LearningJobsListed(jobs=tuple(jobs), next=jobs[-1].id if more else None)

    async def cancel_job(self, request: CancelLearning) -> LearningCancelled:
        """End a job that has not ended. The runner that has it notices within a second and ends its process."""
        files = await self.record.cancel_job(request.project, request.id, self.now())
        if files is not None:
            self.on_change()
            await self.files.delete_files(files)
            job = await self.record.get_job(request.project, request.id)
            await self.feed.announce_progress(make_advance(job))
        return LearningCancelled(id=request.id, cancelled=files is not None)

    async def get_report(self, request: GetLearningReport) -> LearningReport:
        """Return a page of a part of the report, as many entries as fit into a message."""
        job, report = await self.record.load_report(request.project, request.id)
        entries = _select_entries(report, request)
        page = cut_page(entries[request.after : request.after + request.limit], measure_json)
        items = [entry for entry in page if isinstance(entry, ReportedItem)]
        ids = {item.item_id for item in items if item.item_id is not None}
        statuses = await self.record.load_statuses(request.project, ids)
        end = request.after + len(page)
        return LearningReport(
            job=job,
            files=tuple(entry for entry in page if isinstance(entry, LearnedFile)),
            items=tuple(item.model_copy(update={"status": statuses.get(item.item_id or "")}) for item in items),
            templates=tuple(entry for entry in page if isinstance(entry, LearnedTemplate)),
            suites=tuple(entry for entry in page if isinstance(entry, LearnedSuite)),
            totals=_count_entries(report),
            model_use=report.use,
            next=end if end < len(entries) else None,
        )

    async def set_source(self, request: SetLearningSource) -> LearningSwitch:
        return await self.switches.set_switch(request, self.now())

    async def list_sources(self, request: ListLearningSources) -> LearningSourcesListed:
        found = await self.switches.list_off(request)
        sources = tuple(found[: request.limit])
        return LearningSourcesListed(sources=sources, next=sources[-1].source if len(found) > len(sources) else None)

    async def _find_obstacle(self, request: StartLearning) -> str | None:
        if not request.enable_learning:
            return "`enable_learning` is false"
        if await self.switches.is_off(request.project, request.source):
            return f"learning from the source {request.source!r} is switched off"
        return None

    async def _delete_unused(self, first: LearningJob, files: Sequence[LearningFile]) -> None:
        """Delete the objects of a repeated request, unless it is the request of the first job, sent again."""
        if first.status not in {LearningStatus.QUEUED, LearningStatus.RUNNING}:
            await self.files.delete_files(files)
            return
        kept = {file.content.object_name for file in await self.record.list_files(first.id)}
        await self.files.delete_files([file for file in files if file.content.object_name not in kept])


def _select_entries(report: LearnedReport, request: GetLearningReport) -> Sequence[_Entry]:
    """Return the entries of the wanted part."""
    items = tuple(item for item in report.items if request.kind in {None, item.kind})
    parts: dict[ReportPart | None, Sequence[_Entry]] = {
        None: (*report.files, *items),
        ReportPart.FILES: report.files,
        ReportPart.ITEMS: items,
        ReportPart.TEMPLATES: report.templates,
        ReportPart.SUITES: report.suites,
    }
    return parts[request.part]


def _count_entries(report: LearnedReport) -> ReportTotals:
    return ReportTotals(
        files=len(report.files),
        items=len(report.items),
        templates=len(report.templates),
        suites=len(report.suites),
        lines=sum(file.lines for file in report.files),
        records=sum(file.records for file in report.files),
        kinds=dict(Counter(item.kind for item in report.items)),
        redactions=report.redactions,
    )


def make_advance(job: LearningJob, progress: LearningProgress | None = None) -> LearningAdvanced:
    """Return the message of the feed about a job."""
    return LearningAdvanced(id=job.id, project=job.project, status=job.status, progress=progress or job.progress)


def start_phase(job: LearningJob, phase: LearningPhase) -> LearningProgress:
    """Return the progress of a job at the start of a phase."""
    return job.progress.model_copy(update={"phase": phase, "files_done": 0, "bytes_done": 0, "items": 0})


def _check_inline(files: Sequence[LearningFile]) -> None:
    """Raise UnfitError for inline contents that are too large, or that do not have their digest."""
    inline = [file for file in files if file.content.inline is not None]
    size_bytes = sum(len(file.content.inline or b"") for file in inline)
    if size_bytes > MAX_INLINE_BYTES:
        raise UnfitError(
            f"the files of the request have {size_bytes} bytes, and {MAX_INLINE_BYTES} is the limit: "
            "put larger ones into the bucket `learning`"
        )
    for file in inline:
        if sha256(file.content.inline or b"").hexdigest() != file.content.sha256.lower():
            raise UnfitError(f"the content of {file.name!r} does not have its `sha256`: compute it from the bytes")
