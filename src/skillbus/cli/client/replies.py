"""What the HTTP API answers, where it differs from what crosses the bus."""

from pydantic import JsonValue

from skillbus.contracts.agent.tool_calls import CallableAudited
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.indexer.skill_record import EntryPoint, SkillFinding
from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.contracts.indexer.tools import AuditDifference, IndexAudited, ToolFinding
from skillbus.contracts.message import Blob, Message
from skillbus.contracts.sandbox.skill_runs import RunLimits, RunStatus, RunUsage


class Installed(Message):
    """What became of a package."""

    outcome: str
    """`installed`, `updated` or `unchanged`."""
    name: str
    version: str | None = None
    digest: str
    warnings: tuple[SkillFinding, ...] = ()
    entry_points: tuple[EntryPoint, ...] = ()
    indexed: bool = False


class RunArtifact(Message):
    """A file that a run left; its content travels along when it is small, and is fetched from `url` when not."""

    name: str
    size_bytes: int
    sha256: str
    content: Blob | None = None
    url: str | None = None


class Ran(Message):
    """What a run gave."""

    run_id: str
    status: RunStatus
    exit_code: int | None = None
    stdout: str
    stderr: str
    result: JsonValue = None
    """Standard output as JSON, when it is JSON."""
    artifacts: tuple[RunArtifact, ...] = ()
    duration_ms: float
    truncated: bool = False
    isolation: str
    detail: str = ""
    """Which limit ended it, or what was left out, in words."""
    limits: RunLimits | None = None
    used: RunUsage | None = None


class Printed(Message):
    """What a run printed, while it goes on."""

    stream: str
    text: str


class SystemStatus(Message):
    """How everything is."""

    ready: bool
    services: tuple[HealthCheck, ...] = ()
    indexer: IndexerStatus | None = None
    """Absent when the indexer does not answer."""


class LineImported(Message):
    """What became of one description."""

    line: int
    id: str | None = None
    outcome: str
    error: str | None = None
    findings: tuple[ToolFinding, ...] = ()


class ToolsImported(Message):
    """What became of descriptions that were sent; `results` are of those that somebody should look at."""

    total: int
    counts: dict[str, int]
    indexed: bool
    results: tuple[LineImported, ...] = ()


class ItemImported(Message):
    """What became of one item of knowledge."""

    line: int
    file: str | None = None
    """Of a folder: which of its files. The command line adds it."""
    id: str | None = None
    external_id: str | None = None
    outcome: str
    version: int | None = None
    error: str | None = None


class KnowledgeImported(Message):
    """What became of items that were sent; `results` are of those that somebody should look at."""

    total: int
    counts: dict[str, int]
    dry_run: bool = False
    indexed: bool
    results: tuple[ItemImported, ...] = ()


class NotAudited(Message):
    """A part of an audit that could not be made."""

    service: str
    message: str


class Audit(Message):
    """How catalogue, vectors and what can be called stand to one another."""

    project: str
    agrees: bool
    index: IndexAudited | None = None
    calls: CallableAudited | None = None
    missing: tuple[NotAudited, ...] = ()
    repaired: tuple[AuditDifference, ...] = ()


class Embedding(Message):
    """A vector, as OpenAI's API has it in base64."""

    index: int
    embedding: Blob


class Embeddings(Message):
    """Vectors of texts, in their order."""

    data: tuple[Embedding, ...]
