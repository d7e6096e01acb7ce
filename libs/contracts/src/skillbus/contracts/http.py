"""Replies of the REST API, where they differ from what crosses the bus. The gateway writes them, clients read them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from skillbus.contracts.agent.tool_calls import CallableAudited
from skillbus.contracts.embedder.registry import ModelKind
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.contracts.indexer.tools import AuditDifference, IndexAudited, ToolPut, ToolPutOutcome
from skillbus.contracts.learner.bulk import KnowledgeItemPut, KnowledgePutOutcome
from skillbus.contracts.learner.items import IdempotencyKey
from skillbus.contracts.learner.knowledge import (
    ANYBODY,
    NOTE,
    Actor,
    KnowledgeContent,
    KnowledgeTitle,
    KnowledgeType,
    ReasonText,
    Tags,
)
from skillbus.contracts.message import Blob, Message, Project, ProjectMessage
from skillbus.contracts.retriever.tool_search import SearchTools, ToolsFound
from skillbus.contracts.sandbox.run_history import OutputStream
from skillbus.contracts.sandbox.skill_runs import RunResult
from skillbus.contracts.scope import Scope


class Problem(Message):
    """Problem document (RFC 9457): the body of every error reply outside `/v1`."""

    type: str
    """`urn:skillbus:error:<code>`."""
    title: str
    """Meaning of the code, the same for every error with this code."""
    status: int
    detail: str
    """Cause of this error and what to do about it, for people."""
    instance: str
    """Path of the request."""
    code: ErrorCode
    retryable: bool
    """True if the same request, unchanged, can succeed later."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """Data about the error, for programs. `fields` lists each invalid field of a request."""


class SuggestKnowledge(ProjectMessage):
    """Suggested knowledge item. It is pending until an editor has reviewed it."""

    type: KnowledgeType = NOTE
    title: KnowledgeTitle
    content: KnowledgeContent
    """Markdown, stored unchanged. Programs that display it must sanitize it."""
    scope: Scope = ""
    tags: Tags = ()
    actor: Actor = ANYBODY
    reason: ReasonText = ""
    idempotency_key: IdempotencyKey | None = None
    """Key that makes a repetition safe: the same key with the same item within one day returns the first result."""


class UploadedSkill(Skill):
    """Skill after an upload or a rollback."""

    outcome: Literal["installed", "updated", "unchanged"]


class ToolReference(Message):
    """Tool that a model knows by another name."""

    id: str
    action: str | None = None
    """Action of a skill. Absent for its default action and for other tools."""


class ToolFormat(StrEnum):
    """Format of function schemas for a model."""

    OPENAI = "openai"
    """`tools` of chat completions."""
    ANTHROPIC = "anthropic"
    """`tools` of Anthropic's messages."""
    MCP = "mcp"
    """Tools as an MCP server lists them."""


class ToolSearchBody(SearchTools):
    """Search for tools over HTTP."""

    format: ToolFormat | None = None
    """Format of `tools` in the reply. Absent means that the reply has none."""


class ToolSearchReply(ToolsFound):
    """Reply to a search for tools over HTTP."""

    tools: tuple[JsonValue, ...] = ()
    """Schemas of the callable results in the `format` of the request, to be passed to a model. A skill has one for each
    action. Empty without a `format`."""
    names: dict[str, ToolReference] = Field(default_factory=dict)
    """Tool of each name in `tools`: call it with this `id` and `action`."""


class RunArtifact(Message):
    """File that a run left in `$SKILLBUS_OUT`. Its bytes are in `content`, at `url`, or both."""

    name: str
    """Path below `$SKILLBUS_OUT`, with forward slashes."""
    size_bytes: int
    sha256: str
    content: Blob | None
    """The file in base64. Absent for files over 1 MiB."""
    url: str | None
    """Path from which the file can be fetched for one day. Absent for small files, which are only in `content`."""


class RunReply(RunResult):
    """Result of a run. Bytes of its output that are not UTF-8 are replaced by U+FFFD."""

    stdout: str
    stderr: str
    artifacts: tuple[RunArtifact, ...] = ()


class RunBegun(Message):
    """Event `begun` of a followed run: the sandbox accepted the run."""

    run_id: str


class RunPrinted(Message):
    """Event `output` of a followed run: text that the run printed."""

    number: int
    """Number of the event. Numbers increase within a run."""
    stream: OutputStream
    text: str
    """Printed text. Bytes that are not UTF-8 are replaced by U+FFFD."""


class SystemStatus(Message):
    """Readiness of the system and state of the index."""

    ready: bool
    """True if NATS is connected and every service that searches and runs need is ready."""
    services: tuple[HealthCheck, ...]
    """NATS and each service. `detail` says why one is not ready."""
    indexer: IndexerStatus | None
    """State of the index. Absent if the indexer does not reply."""


class AuditOrder(ProjectMessage):
    """Request for an audit."""

    fix: bool = False
    """True repairs the differences before the audit."""


class UnansweredAudit(Message):
    """Part of an audit for which a service did not reply."""

    service: str
    code: ErrorCode
    message: str


class AuditReport(Message):
    """Comparison of catalogue, knowledge base, vectors and callable tools.

    After a repair it describes the repaired state.
    """

    project: Project
    agrees: bool
    """True if every service replied, every active tool and item is indexed at its current version, every catalogued
    tool can be called, and the index holds nothing else."""
    index: IndexAudited | None = None
    """Comparison of catalogue and knowledge base with vectors and packages. Absent if the indexer did not reply."""
    calls: CallableAudited | None = None
    """Comparison of the catalogue with MCP servers and builtin tools. Absent if the agent service did not reply."""
    missing: tuple[UnansweredAudit, ...] = ()
    """Parts that could not be compared."""
    repaired: tuple[AuditDifference, ...] = ()
    """Differences that the repair found, each with the number of repaired ones."""


ImportedLine = Annotated[int, Field(description="Line of the NDJSON body, or position in the array. The first is 1.")]


class ToolLineImported(ToolPut):
    """Result for one tool description of an import."""

    id: str | None = None
    line: ImportedLine

    @property
    def is_problem(self) -> bool:
        """True if an operator should look at the line."""
        return bool(self.findings) or self.outcome in {ToolPutOutcome.REJECTED, ToolPutOutcome.QUARANTINED}


class ToolsImported(Message):
    """Result of an import of tool descriptions."""

    total: int
    counts: dict[ToolPutOutcome, int] = Field(default_factory=dict)
    """Number of descriptions by outcome. Every outcome is listed, also with 0."""
    indexed: bool
    """True if search already finds all of them. False if the vector store or the embedder is away; the indexer then
    adds them later."""
    results: tuple[ToolLineImported, ...] = ()
    """Results in the order of the body. With `only=problems`, lines without a problem are left out."""


class KnowledgeLineImported(KnowledgeItemPut):
    """Result for one knowledge item of an import."""

    line: ImportedLine

    @property
    def is_problem(self) -> bool:
        """True if an operator should look at the line."""
        return self.outcome is KnowledgePutOutcome.REJECTED


class KnowledgeImported(Message):
    """Result of an import of knowledge items. With `dry_run` nothing was written."""

    total: int
    counts: dict[KnowledgePutOutcome, int] = Field(default_factory=dict)
    """Number of items by outcome. Every outcome is listed, also with 0."""
    dry_run: bool = False
    indexed: bool
    """True if the index already holds all of them. Search finds the missing ones once it does."""
    unindexed: int = Field(default=0, ge=0)
    """Number of items that the index did not hold yet when they were written and waited for."""
    results: tuple[KnowledgeLineImported, ...] = ()
    """Results in the order of the body. With `only=problems`, lines without a problem are left out."""


class ModelTested(Message):
    """Result of a test of a model."""

    ok: bool
    """True if the model returned a vector, or an answer to a chat."""
    provider: str
    model: str
    kind: ModelKind
    dimensions: int | None = None
    """Length of the vector. Absent for chat models."""
    took_ms: float
    error: str | None = None
    """Reason why it returned nothing. It holds no key."""


class OpenAiEmbedding(Message):
    """Vector of one text, in OpenAI's format. Its length is 1."""

    object: Literal["embedding"] = "embedding"
    index: int
    """Position of the text in the input. The first is 0."""
    embedding: list[float] | str
    """The vector, or little-endian float32 values in base64 if the request asks for `base64`."""


class OpenAiUsage(Message):
    """Token counts of a request, in OpenAI's format."""

    prompt_tokens: int
    """Tokens of the texts, as the provider counted them, or an estimate."""
    total_tokens: int
    """The same number as `prompt_tokens`."""


class OpenAiEmbeddings(Message):
    """Reply of `POST /v1/embeddings`, in OpenAI's format."""

    object: Literal["list"] = "list"
    data: tuple[OpenAiEmbedding, ...]
    """One vector for each text, in the order of the input."""
    model: str
    usage: OpenAiUsage


class OpenAiModel(Message):
    """Model, in OpenAI's format."""

    id: str
    """Name of the model; `provider/name` if two models have the same name."""
    object: Literal["model"] = "model"
    created: int
    """Time of registration, in Unix seconds."""
    owned_by: str
    """Name of the provider."""
    kind: ModelKind = ModelKind.EMBEDDING
    """`embedding` for `/v1/embeddings`, `chat` for `/v1/chat/completions`. Not part of OpenAI's API."""
    dimensions: int | None = None
    """Length of its vectors. Absent until it is known, and for chat models. Not part of OpenAI's API."""
    fingerprint: str | None = None
    """Identity of its vectors. Absent until it is known, and for chat models. Not part of OpenAI's API."""


class OpenAiModels(Message):
    """Reply of `GET /v1/models`, in OpenAI's format. Embedding models come first, of each kind the default."""

    object: Literal["list"] = "list"
    data: tuple[OpenAiModel, ...]


class OpenAiError(Message):
    """Error of `/v1`, in OpenAI's format."""

    message: str
    """Cause of the error and what to do about it."""
    type: str
    """Kind of error in OpenAI's terms, for example `invalid_request_error`."""
    param: str | None = None
    """Name of the invalid field."""
    code: str | None = None
    """Error code: OpenAI's where it has one, skillbus's otherwise."""


class OpenAiErrorBody(Message):
    """Body of every error reply of `/v1`."""

    error: OpenAiError
