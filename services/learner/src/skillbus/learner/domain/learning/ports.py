"""Ports of learning: the record of jobs, the files of a job, the extraction, and the store of what was learned."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import Field, JsonValue

from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learned import LearnedFile, LearnedItem, LearnedSuite, LearnedTemplate, ModelUse
from skillbus.contracts.learner.learning_jobs import (
    LearningAdvanced,
    LearningFile,
    LearningJob,
    LearningProgress,
    LearningSwitch,
    ListLearningJobs,
    ListLearningSources,
    SetLearningSource,
)
from skillbus.contracts.learner.proposals import ReportedItem
from skillbus.contracts.message import Content, Message
from skillbus.learning.job import QuotedSection, ReadingProgress


class LearnedReport(Message):
    """Result of a job: each file, the items with what became of them, templates, suites, and a chat model's part."""

    files: tuple[LearnedFile, ...] = ()
    items: tuple[ReportedItem, ...] = ()
    use: ModelUse | None = None
    templates: tuple[LearnedTemplate, ...] = ()
    suites: tuple[LearnedSuite, ...] = ()
    redactions: dict[str, int] = Field(default_factory=dict)


class ExtractionResult(Message):
    """Result of an extraction."""

    files: tuple[LearnedFile, ...] = ()
    items: tuple[LearnedItem, ...] = ()
    digest: tuple[QuotedSection, ...] = ()
    """Lines of the redacted files that a chat model may read."""
    use: ModelUse | None = None
    """Part of a chat model. Absent until one has read the digest."""
    runs: tuple[dict[str, JsonValue], ...] = ()
    """Test runs that it read, in the form in which it takes them as history."""
    templates: tuple[LearnedTemplate, ...] = ()
    suites: tuple[LearnedSuite, ...] = ()
    redactions: dict[str, int] = Field(default_factory=dict)
    """Replaced secrets and personal data in the quotes, by kind."""


class ExtractionError(Exception):
    """The extraction ended without a result. The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """Job of one runner, until its lease ends."""

    job: LearningJob
    files: tuple[LearningFile, ...]
    claim: str
    """Token of this claim. A later claim of the same job has another one."""
    attempt: int
    """1 for the first claim."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """Job of a request."""

    job: LearningJob
    is_repeated: bool
    """True if the project had a job for the same digest that is under way or done."""


class JobRecord(Protocol):
    """Jobs in the database. Every method raises KnowledgeUnavailableError."""

    async def add_job(self, job: LearningJob, files: Sequence[LearningFile]) -> RecordedJob:
        """Add a job, or return the one with its digest. A failed or cancelled one is queued again."""

    async def get_job(self, project: str, job: str) -> LearningJob:
        """Return a job. Raises UnknownJobError."""

    async def list_jobs(self, wanted: ListLearningJobs) -> Sequence[LearningJob]:
        """Return up to `wanted.limit` + 1 jobs, newest first."""

    async def load_report(self, project: str, job: str) -> tuple[LearningJob, LearnedReport]:
        """Return a job and its report, which is empty before the end. Raises UnknownJobError."""

    async def load_statuses(self, project: str, items: Collection[str]) -> Mapping[str, KnowledgeStatus]:
        """Return the statuses of knowledge items by id."""

    async def cancel_job(self, project: str, job: str, at: datetime) -> Sequence[LearningFile] | None:
        """End a job that has not ended, and return its files; None if it had ended. Raises UnknownJobError."""

    async def claim_job(self, claim: str, at: datetime, lease_until: datetime) -> ClaimedJob | None:
        """Claim the oldest job that is queued, or whose lease has ended; return None if there is none."""

    async def advance_job(self, claimed: ClaimedJob, progress: LearningProgress, lease_until: datetime) -> bool:
        """Store progress and extend the lease. Return False if the job is not this claim's any more."""

    async def release_job(self, claimed: ClaimedJob) -> None:
        """Queue a job again that this claim did not end."""

    async def fail_job(self, claimed: ClaimedJob, error: str, at: datetime) -> LearningJob | None:
        """End a job without a result. Return None if it is not this claim's any more."""

    async def list_files(self, job: str) -> Sequence[LearningFile]:
        """Return the files of a job that has not ended."""

    async def load_runs(self, project: str, source: str) -> Sequence[JsonValue]:
        """Return the last test runs of a source, oldest first."""


class SourceSwitches(Protocol):
    """Sources that are switched off. Every method raises KnowledgeUnavailableError."""

    async def is_off(self, project: str, source: str) -> bool: ...

    async def set_switch(self, request: SetLearningSource, at: datetime) -> LearningSwitch: ...

    async def list_off(self, wanted: ListLearningSources) -> Sequence[LearningSwitch]:
        """Return up to `wanted.limit` + 1 sources, ordered by name."""


class ItemProposer(Protocol):
    """Stores what a job learned."""

    async def finish_job(
        self, claimed: ClaimedJob, result: ExtractionResult, neighbours: Sequence[Sequence[str]], at: datetime
    ) -> LearningJob | None:
        """Resolve and store the items, the test runs and the report, and end the job, in one transaction.

        `neighbours` has the ids of the items near each one.

        Return None, without writing anything, if the job is not this claim's any more.

        Raises:
            KnowledgeUnavailableError: nothing was written.
            ConcurrentChangeError: others wrote the same items several times in a row.
        """


class NeighbourFinder(Protocol):
    """The index of knowledge, which the retriever searches."""

    async def find_neighbours(self, project: str, items: Sequence[LearnedItem]) -> Sequence[Sequence[str]]:
        """Return the ids of the active items near each item, nearest first. Raises RequestError."""


class JobFiles(Protocol):
    """Files of jobs in the object store. Every method raises RequestError if the bus is away."""

    async def fetch_file(self, content: Content, path: Path) -> None:
        """Write a content to a new file. Raises RequestError: `not_found`, or `invalid_request` for other bytes."""

    async def delete_files(self, files: Sequence[LearningFile]) -> None:
        """Delete the objects of files, as far as the bus can be reached. The bucket deletes others in a day."""


class Extractor(Protocol):
    """Extraction in another process. Cancelling the task ends the process."""

    async def extract_items(self, folder: Path, on_progress: Callable[[ReadingProgress], None]) -> ExtractionResult:
        """Learn from the files that `job.json` in the folder names. Raises ExtractionError."""


class ProgressFeed(Protocol):
    """Feed of progress."""

    async def announce_progress(self, progress: LearningAdvanced) -> None:
        """Publish to current subscribers; a lost connection is ignored."""
