"""Description of an extraction, its progress and its result: what a caller and the program exchange as JSON."""

from pydantic import Field

from skillbus.contracts.learner.learned import LearnedFile, LearnedItem, LearnedSuite, LearnedTemplate
from skillbus.contracts.learner.learning_jobs import LearningInputKind, RunContext
from skillbus.contracts.message import Message
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestRun
from skillbus.learning.thresholds import Thresholds
from skillbus.learning.traffic.settings import TrafficSettings


class JobFile(Message):
    """File of a job."""

    name: str
    path: str
    """Path on this machine."""


class ExtractionSettings(Thresholds):
    """Thresholds of all kinds of files, and the size of a result."""

    logs: LogSettings = LogSettings()
    traffic: TrafficSettings = TrafficSettings()
    tests: TestSettings = TestSettings()
    max_items: int = Field(default=100, ge=1, le=1_000)
    """Most items of a job: those with the surest evidence."""
    max_sections: int = Field(default=300, ge=0)
    """Most sections of the digest."""
    max_templates: int = Field(default=500, ge=0, le=5_000)
    """Most templates of a job's report: the most severe, then the most frequent."""


class ExtractionJob(Message):
    """Files to extract from."""

    what: LearningInputKind = LearningInputKind.FILES
    files: tuple[JobFile, ...]
    history: str | None = None
    """Path of a JSON list of earlier test runs, oldest first."""
    context: RunContext = RunContext()
    settings: ExtractionSettings = ExtractionSettings()


class ReadingProgress(Message):
    """Progress of an extraction."""

    files_done: int = 0
    bytes_done: int = 0
    items: int = 0


class QuotedSection(Message):
    """Lines of a redacted file, for a chat model."""

    title: str
    file: str
    line: int = 0
    """Line at which the text begins; 0 if the file has none."""
    text: str


class Extraction(Message):
    """Result of an extraction."""

    files: tuple[LearnedFile, ...] = ()
    items: tuple[LearnedItem, ...] = ()
    digest: tuple[QuotedSection, ...] = ()
    runs: tuple[TestRun, ...] = ()
    """Test runs that are not in the history."""
    templates: tuple[LearnedTemplate, ...] = ()
    suites: tuple[LearnedSuite, ...] = ()
    redactions: dict[str, int] = Field(default_factory=dict)
    """Replaced secrets and personal data in the quotes of items and templates, by kind."""
