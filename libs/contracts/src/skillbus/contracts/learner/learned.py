"""Items that learning finds in logs, traffic and test runs, with their evidence, and the files they came from."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from skillbus.contracts.learner.knowledge import KnowledgeContent, KnowledgeTitle, KnowledgeType, Tags
from skillbus.contracts.message import WITHOUT_NUL, Message
from skillbus.contracts.scope import Scope

LOG_LEARNING: Final = "log_learning"
"""Source of items that were learned from logs and traffic."""
TEST_LEARNING: Final = "test_learning"
"""Source of items that were learned from test runs."""
QUOTE_CHARACTERS: Final = 500
MAX_EVIDENCE: Final = 20
"""Most quotes of one item. `seen` counts all occurrences."""
_ShortText = Annotated[str, StringConstraints(max_length=300), WITHOUT_NUL]


class LearnedKind(StrEnum):
    """Kind of a learned item."""

    INCIDENT = "incident"
    """Severe messages of a log that occur together."""
    RULE = "rule"
    """Requirement of an HTTP interface on a header or parameter."""
    CONFIG = "config"
    """Setting with one stable value."""
    REGRESSION = "regression"
    """Tests that a change broke, with the cause and, if known, the change that fixed them."""
    FLAKY = "flaky"
    """Tests that pass and fail on the same commit."""
    ENVIRONMENT = "environment"
    """Failure of the environment of a test run: a missing module, a service that is away."""
    PREEXISTING = "preexisting"
    """Tests that failed in every known run."""


class Polarity(StrEnum):
    """Force of a statement."""

    MUST = "must"
    MUST_NOT = "must_not"
    MAY = "may"
    FACT = "fact"


class EvidenceQuote(Message):
    """Literal quote of the redacted source that supports an item."""

    file: _ShortText
    line: int = Field(ge=0)
    """First line of the quote, counted from 1; 0 if the source has no lines."""
    quote: Annotated[str, StringConstraints(max_length=QUOTE_CHARACTERS), WITHOUT_NUL]


class ConfidenceInterval(Message):
    """90 % interval of the probability that the statement holds, from the counts of its evidence."""

    low: float = Field(ge=0.0, le=1.0)
    high: float = Field(ge=0.0, le=1.0)


class TrafficRule(Message):
    """Requirement of an HTTP interface. Exactly one of `header` and `parameter` is given."""

    method: _ShortText
    """Methods that require it, separated by commas: `GET,POST`."""
    path: _ShortText
    """Template of the path: `/api/order/{id}/pay`, or a pattern that covers several: `/api/live/*`."""
    header: _ShortText | None = None
    """Name in lower case."""
    parameter: _ShortText | None = None


class LearnedStatement(Message):
    """Statement of an item in a form that can be compared.

    Two items are about the same thing if project, scope, subject and predicate are equal. They conflict if value or
    polarity differ then.
    """

    subject: _ShortText
    predicate: _ShortText
    value: Annotated[str, StringConstraints(max_length=2_000), WITHOUT_NUL] = ""
    polarity: Polarity = Polarity.FACT


class LearnedItem(Message):
    """Item that learning proposes. Every quote of its evidence stands literally in the redacted source."""

    kind: LearnedKind
    type: KnowledgeType
    title: KnowledgeTitle
    content: KnowledgeContent
    scope: Scope = ""
    tags: Tags = ()
    statement: LearnedStatement
    tests: tuple[str, ...] = ()
    """Ids of tests that the item is about."""
    rule: TrafficRule | None = None
    first_failed: str | None = None
    """Commit, or else run, in which the tests failed first."""
    fixed_by: tuple[str, ...] = ()
    """Commits, or else runs, in which the tests passed again."""
    evidence: Annotated[tuple[EvidenceQuote, ...], Field(min_length=1, max_length=MAX_EVIDENCE)]
    confidence: ConfidenceInterval
    seen: int = Field(ge=1)
    """Occurrences in the source: log records, calls or runs."""
    addresses_assistant: bool = False
    """True if its text or evidence seems to give instructions to a model."""
    extractor: _ShortText = "rules"
    """`rules`, or the chat model that wrote or proposed it, as `provider/name (mode)`."""


class LearnedFileStatus(StrEnum):
    """Result of reading a file."""

    READ = "read"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not of a kind that learning reads."""


class LearnedFile(Message):
    """File of a job, and the result of reading it."""

    path: str
    """Name in the job. A member of an archive follows its archive after `!`: `logs.zip!app.log`."""
    status: LearnedFileStatus
    format: str = ""
    """Format that was recognized: `log`, `access_log`, `har`, `junit`, `pytest_json`."""
    records: int = Field(default=0, ge=0)
    """Log records, calls or test cases in it."""
    lines: int = Field(default=0, ge=0)
    """Lines that were read; 0 for a file that is not read by lines."""
    templates: int = Field(default=0, ge=0)
    """Templates of a log. The report keeps the most severe and frequent ones of the job."""
    error: str | None = None


class ModelUse(Message):
    """Part that a chat model had in a job."""

    model: str
    """`provider/name` of the model that answered, or the one that was asked."""
    mode: str | None = None
    """Way in which it gave a structured answer: `native`, `tool` or `prompted`. Absent if no answer could be used; the
    items are those of the rules then."""
    tokens: int = Field(default=0, ge=0)
    """Tokens of all requests, the failed ones included."""
    cached: bool = False
    """True if the same digest had been answered before. Nothing was sent then."""
    kept: int = Field(default=0, ge=0)
    """Items of the answer that were kept."""
    dropped: int = Field(default=0, ge=0)
    """Items of the answer that were not valid, or quoted what does not stand in the digest."""
    error: str | None = None
    """Reasons why ways to answer failed."""
    nothing_found_reason: str | None = None


class LogLevel(StrEnum):
    """Level of a log record."""

    UNKNOWN = "unknown"
    """The records have no level, and no word of failure."""
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"


class LearnedTemplate(Message):
    """Message of a log with its values masked, as often as it was met. Everything in it is redacted."""

    file: _ShortText
    text: Annotated[str, StringConstraints(max_length=1_000), WITHOUT_NUL]
    """The message, `<*>` in place of each value."""
    level: LogLevel
    """Highest level of its records; of records without a level, what words of failure say."""
    count: int = Field(ge=1)
    first_line: int = Field(default=0, ge=0)
    last_line: int = Field(default=0, ge=0)
    first_time: _ShortText = ""
    """Time of the first record, as the log writes it."""
    last_time: _ShortText = ""
    evidence: Annotated[tuple[EvidenceQuote, ...], Field(max_length=MAX_EVIDENCE)] = ()
    """Samples."""


class SuiteOutcome(StrEnum):
    """Result of a test in a run."""

    PASSED = "passed"
    FAILED = "failed"
    BOTH = "both"
    """Failed and passed in one run."""
    SKIPPED = "skipped"
    ABSENT = "absent"


class SuiteRun(Message):
    """Run of a test suite, in numbers."""

    run: _ShortText
    """Id, by default from the name of the file."""
    commit: _ShortText = ""
    branch: _ShortText = ""
    started: _ShortText = ""
    """Time in ISO 8601, UTC."""
    passed: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    """Tests that failed, those that passed too in the same run included."""
    skipped: int = Field(default=0, ge=0)
    is_set_aside: bool = False
    """True for a run that failed for its environment."""


class SuiteTest(Message):
    """Test that a finding is about, and its result in each run."""

    test: Annotated[str, StringConstraints(max_length=1_000)]
    kind: LearnedKind
    outcomes: tuple[SuiteOutcome, ...]
    """One for each run of the suite, in its order."""


class LearnedSuite(Message):
    """Last runs of a test suite, as the job compared them: those of its history, and the new ones."""

    folder: _ShortText
    """Folder of its reports; `.` if they have none."""
    runs: tuple[SuiteRun, ...]
    """Oldest first."""
    tests: tuple[SuiteTest, ...] = ()
    """Tests of findings, flaky ones first."""


class ReportPart(StrEnum):
    """Part of a job's report."""

    FILES = "files"
    ITEMS = "items"
    TEMPLATES = "templates"
    """Templates of logs, also those that became no item: the most severe first, then the most frequent."""
    SUITES = "suites"
    """Test suites with their last runs."""


class ReportTotals(Message):
    """Numbers of what a report has."""

    files: int = 0
    items: int = 0
    templates: int = 0
    suites: int = 0
    lines: int = 0
    records: int = 0
    kinds: dict[LearnedKind, int] = Field(default_factory=dict)
    """Number of items of each kind."""
    redactions: dict[str, int] = Field(default_factory=dict)
    """Secrets and personal data that were replaced in the quotes of the report, by kind: `secret`, `email`, `ip`."""


class LearnedContents(Message):
    """Contents of a report beside items."""

    files: tuple[LearnedFile, ...] = ()
    templates: tuple[LearnedTemplate, ...] = ()
    suites: tuple[LearnedSuite, ...] = ()
    totals: ReportTotals = ReportTotals()
    model_use: ModelUse | None = None
    """Part that a chat model had. Absent if none was asked."""
