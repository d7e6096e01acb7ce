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
