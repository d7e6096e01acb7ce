"""Runs jobs, one after the other: fetch the files, extract in another process, store what was learned.

A job belongs to one runner as long as its lease lasts, which the runner extends. If the runner dies, the lease ends,
and another one begins the job again. What it stores, it stores in one transaction with the end of the job, and only
if the job is still its own. So a job that was cancelled or taken over stores nothing.
"""

import asyncio
import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import structlog
from pydantic_core import to_json

from skillbus.common.background import FailureLog, end_tasks, finish_within
from skillbus.contracts.errors import RequestError
from skillbus.contracts.learner.learned import LearnedItem
from skillbus.contracts.learner.learning_jobs import LearningFile, LearningJob, LearningPhase, LearningProgress
from skillbus.learner.domain.errors import KnowledgeUnavailableError, LearnerError
from skillbus.learner.domain.learning.jobs import make_advance, start_phase
from skillbus.learner.domain.learning.model_extraction import ModelLearning
from skillbus.learner.domain.learning.ports import (
    ClaimedJob,
    ExtractionError,
    ExtractionResult,
    Extractor,
    ItemProposer,
    JobFiles,
    JobRecord,
    NeighbourFinder,
    ProgressFeed,
)
from skillbus.learning.job import ExtractionSettings, ReadingProgress

MAX_ATTEMPTS: Final = 3
"""A job that was begun so often without an end, because each of its runners died, fails."""
_PROGRESS_EVERY_S: Final = 0.5
_LOOK_EVERY_S: Final = 5.0
"""Longest time until a runner finds a job that another replica queued."""
_RETRIEVER_PATIENCE: Final = timedelta(minutes=10)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_FOLDER_PREFIX: Final = "job-"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobParts:
    """Parts that runners share."""

    record: JobRecord
    files: JobFiles
    extractor: Extractor
    proposer: ItemProposer
    neighbours: NeighbourFinder
    model: ModelLearning | None
    """None if no chat model reads digests."""
    feed: ProgressFeed
    now: Callable[[], datetime]
    folder: Path
    """Folder for the files of a job while it runs."""
    lease: timedelta
    thresholds: ExtractionSettings


class JobRunner:
    """Runs one job at a time."""

    def __init__(self, parts: JobParts) -> None:
        self._parts = parts
        self._failures = FailureLog(KnowledgeUnavailableError)
        self._woken = asyncio.Event()
        self._changed = asyncio.Event()
        self._stopped = False

    def wake(self) -> None:
        """Look soon for a job, and whether the current one was cancelled."""
        self._woken.set()
        self._changed.set()

    def stop(self) -> None:
        """End `run` soon. The current job is queued again."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Run jobs until `stop` is called."""
        while not self._stopped:
            self._woken.clear()
            is_busy = False
            with self._failures.guard("learn"):
                is_busy = await self._run_next()
            if not is_busy and not self._stopped:
                await finish_within(self._woken.wait(), _LOOK_EVERY_S)

    async def _run_next(self) -> bool:
        """Run the oldest job, and return True if there was one."""
        at = self._parts.now()
        claimed = await self._parts.record.claim_job(uuid4().hex, at, at + self._parts.lease)
        if claimed is None:
            return False
        if claimed.attempt > MAX_ATTEMPTS:
            await self._fail(claimed, f"the job was begun {MAX_ATTEMPTS} times without an end: see the learner's log")
            return True
        work = _JobWork(self._parts, claimed)
        running = asyncio.create_task(work.run())
        try:
            await self._follow(work, running)
        finally:
            ended = running.done()
            await end_tasks(running)
            if not ended:
                await self._parts.record.release_job(claimed)  # does nothing to a job that is not this claim's
        return True

    async def _follow(self, work: "_JobWork", running: asyncio.Task[None]) -> None:
        """Store and publish progress until the work has ended, the job is not its own any more, or `stop`."""
        while not self._stopped:
            self._changed.clear()
            changed = asyncio.create_task(self._wait_for_change())
            await asyncio.wait({running, changed}, timeout=_PROGRESS_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            must_look = changed.done()
            await end_tasks(changed)
            if running.done():
                await running
                return
            if not await work.report_progress(must_look=must_look):
                return

    async def _wait_for_change(self) -> None:
        await self._changed.wait()

    async def _fail(self, claimed: ClaimedJob, error: str) -> None:
        job = await self._parts.record.fail_job(claimed, error, self._parts.now())
        if job is not None:
            await end_job(self._parts, claimed, job)


class _JobWork:
    """Work on one job."""

    def __init__(self, parts: JobParts, claimed: ClaimedJob) -> None:
        self._parts = parts
        self._claimed = claimed
        self._progress = start_phase(claimed.job, LearningPhase.FETCHING)
        self._reported: LearningProgress | None = None
        self._reported_at = parts.now()

    async def run(self) -> None:
        """Run the job to its end. Raises the errors of the database and of the bus: the job is tried again then."""
        parts, claimed = self._parts, self._claimed
        try:
            with _open_folder(parts.folder) as folder:
                result = await self._extract(folder)
            if parts.model is not None and result.digest:
                self._enter(LearningPhase.REFINING)
                result = await self._refine(parts.model, result)
            self._enter(LearningPhase.STORING)
            near = await self._find_neighbours(result.items)
            job = await parts.proposer.finish_job(self._with_progress(claimed, result), result, near, parts.now())
        except (ExtractionError, LearnerError, RequestError, OSError) as error:
            if isinstance(error, KnowledgeUnavailableError | RequestError) and error.retryable:
                await parts.record.release_job(claimed)
                raise
            job = await parts.record.fail_job(claimed, _explain(error), parts.now())
        if job is not None:
            await end_job(parts, claimed, job)

    async def _find_neighbours(self, items: Sequence[LearnedItem]) -> Sequence[Sequence[str]]:
        """Ask the retriever, again and again while it is away: the files need not be read a second time.

        Raises:
            ExtractionError: It was away for ten minutes.
            RequestError: It refused.
        """
        until, pause_s = self._parts.now() + _RETRIEVER_PATIENCE, _FIRST_PAUSE_S
        while True:
            try:
                return await self._parts.neighbours.find_neighbours(self._claimed.job.project, items)
            except RequestError as error:
                if not error.retryable:
                    raise
                if self._parts.now() >= until:
                    raise ExtractionError(
                        f"the search did not answer: {error.message} Learn again once it does."
                    ) from error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def report_progress(self, *, must_look: bool) -> bool:
        """Extend the lease, and publish what has changed. Return False if the job is not this claim's any more.

        Without progress it does so ten times in a lease, unless it `must_look`.
        """
        parts, progress, at = self._parts, self._progress, self._parts.now()
        if progress == self._reported and not must_look and at - self._reported_at < parts.lease / 10:
            return True
        if not await parts.record.advance_job(self._claimed, progress, at + parts.lease):
            return False
        self._reported, self._reported_at = progress, at
        await parts.feed.announce_progress(make_advance(self._claimed.job, progress))
        return True

    async def _extract(self, folder: Path) -> ExtractionResult:
        job = self._claimed.job
        named = [await self._fetch(folder, number, file) for number, file in enumerate(self._claimed.files)]
        runs = await self._parts.record.load_runs(job.project, job.source)
        history = folder / "history.json"
        await asyncio.to_thread(history.write_bytes, to_json(runs))
        described = {
            "what": job.what,
            "files": named,
            "history": str(history),
            "context": job.context.model_dump(),
            "settings": self._parts.thresholds.model_dump(mode="json"),
        }
        (folder / "job.json").write_text(json.dumps(described, ensure_ascii=False), "utf-8")
        self._progress = start_phase(job, LearningPhase.READING)
        return await self._parts.extractor.extract_items(folder, self._note_progress)

    async def _refine(self, model: ModelLearning, result: ExtractionResult) -> ExtractionResult:
        """Let a chat model rewrite and extend the items."""
        found = await model.refine_items(result.digest, result.items)
        return result.model_copy(update={"items": found.items, "use": found.use})

    async def _fetch(self, folder: Path, number: int, file: LearningFile) -> dict[str, str]:
        path = folder / f"file-{number:04}"
        await self._parts.files.fetch_file(file.content, path)
        done = {"files_done": number + 1, "bytes_done": self._progress.bytes_done + file.content.size_bytes}
        self._progress = self._progress.model_copy(update=done)
        return {"name": file.name, "path": str(path)}

    def _note_progress(self, progress: ReadingProgress) -> None:
        self._progress = self._progress.model_copy(update=progress.model_dump(exclude_unset=True))

    def _enter(self, phase: LearningPhase) -> None:
        self._progress = self._progress.model_copy(update={"phase": phase})

    def _with_progress(self, claimed: ClaimedJob, result: ExtractionResult) -> ClaimedJob:
        """Return the claim with the progress of a job that has ended well."""
        total = self._progress
        done = {"files_done": total.total_files, "bytes_done": total.total_bytes, "items": len(result.items)}
        job = claimed.job.model_copy(update={"progress": total.model_copy(update=done)})
        return ClaimedJob(job, claimed.files, claimed.claim, claimed.attempt)


async def end_job(parts: JobParts, claimed: ClaimedJob, job: LearningJob) -> None:
    """Announce the end of a job, and delete its files."""
    log.info(
        "learning_ended",
        job=job.id,
        status=job.status,
        new_items=job.new_items,
        known_items=job.known_items,
        files=job.progress.total_files,
        bytes=job.progress.total_bytes,
    )
    await parts.feed.announce_progress(make_advance(job))
    await parts.files.delete_files(claimed.files)


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the learner cannot keep the files while it reads them: {error.strerror}; learn again once it can"
    return str(error)


@contextmanager
def _open_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for a job, locked as long as this process lives, and remove it in the end."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent))
    try:
        with _open_lock(folder) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders(parent: Path) -> None:
    """Remove the folders of jobs whose process was killed: nobody holds their locks."""
    for left in parent.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError), _open_lock(left) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def _open_lock(folder: Path) -> BinaryIO:
    return (folder / "lock").open("ab")
