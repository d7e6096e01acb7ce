"""Search for commands, and the way from a spoken sentence to devices and their commands."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer.devices import CapabilityId, DeviceId, HomeName, SpokenName
from skillbus.contracts.message import WITHOUT_NUL, Message, ProjectMessage
from skillbus.contracts.retriever import SERVICE
from skillbus.contracts.retriever.query_ir import MAX_QUERIES, QueryIR, Sentence
from skillbus.contracts.retriever.search_explanation import DroppedHits, MatchReason, ScoreParts, SearchStage, Side
from skillbus.contracts.retriever.tool_search import Query, SearchReply

SessionName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200),
    WITHOUT_NUL,
    Field(description="Dialogue of one speaker. What it mentioned last is remembered for ten minutes."),
]
Parser = Literal["auto", "rules", "model"]
"""`auto` asks the model only where the grammar is not sure and a chat model is configured."""


class SearchCommands(ProjectMessage):
    """Search for commands of the library."""

    query: Query
    limit: int = Field(default=10, ge=1, le=100)
    threshold: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    """Lowest `score` of a hit. Absent means that the nearest are returned in any case."""
    capabilities: tuple[CapabilityId, ...] = Field(default=(), max_length=200)
    """Find only commands of these capabilities. Empty means all."""
    side: Side | None = None
    """Compare only vectors (`dense`) or only words (`lexical`), to see what each side finds. Absent means both."""
    explain: bool = False
    """True explains the search: reasons and parts of each score, the stages, and what was left out."""


class CommandHit(Message):
    """Command that fits the query."""

    id: str
    capability: str
    command: str
    description: dict[str, str]
    score: float
    """Calibrated relevance from 0 to 1. Hits are ordered by it, highest first."""
    cosine: float | None
    """Cosine of query and command. Absent if only words were compared."""
    reasons: tuple[MatchReason, ...] = ()
    """Reasons why it was found, with `terms` of the query and its meaning. Only with `explain`."""
    parts: ScoreParts | None = None
    """Parts of the score. Only with `explain`."""


class CommandSearchExplanation(Message):
    """Explanation of a search for commands."""

    stages: tuple[SearchStage, ...]
    """Stages `embed`, `candidates`, `fetch` and `rank`."""
    indexed: int
    """Commands in the index, in all projects."""
    threshold: float
    best_score: float | None = None
    """Best score of all candidates, also those below the threshold."""
    terms: tuple[str, ...] = ()
    """Terms that the lexical side searched for, those of the query's meaning among them."""
    dropped: tuple[DroppedHits, ...] = ()
    """Candidates that were not returned, by reason."""


class CommandsFound(SearchReply):
    """Commands that fit the query, best first."""

    results: tuple[CommandHit, ...]
    explanation: CommandSearchExplanation | None = None


class ParseQuery(ProjectMessage):
    """Sentence to parse."""

    text: Sentence
    home: HomeName | None = None
    """Home whose names, rooms and types the sentence may use. Without one the grammar knows only common words."""
    room: SpokenName | None = None
    """Room in which the speaker is: what "in here" and "my room" mean."""
    parser: Parser = "auto"


class ParseReply(Message):
    """Reply about a sentence: its parser, and the time that it took."""

    parsed_by: Literal["rules", "model"]
    model: str | None = None
    """Chat model that parsed it, as `<provider>/<model>`."""
    model_problem: str | None = None
    """Reason why the grammar's reading is returned although a model was asked."""
    took_ms: float


class QueryParsed(ParseReply):
    """Commands of the sentence, in its order."""

    queries: tuple[QueryIR, ...] = Field(max_length=MAX_QUERIES)
    """Empty if the sentence is no command."""


class ResolveCommand(ProjectMessage):
    """Spoken command to resolve to devices of a home."""

    text: Sentence
    home: HomeName
    room: SpokenName | None = None
    """Room in which the speaker is: what "in here" and "my room" mean. Without it "in here" limits nothing, and
    "my room" is answered by a question."""
    session: SessionName | None = None
    last_mentioned: tuple[DeviceId, ...] | None = Field(default=None, max_length=1_000)
    """Devices that "it" stands for. Absent means those that the session mentioned last."""
    parser: Parser = "auto"
    threshold: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)
    """Lowest score between the action and a command of a device."""


class RecallReason(StrEnum):
    """Reason why a device was recalled."""

    NAME_HIT = "name_hit"
    ALIAS_HIT = "alias_hit"
    FUZZY_HIT = "fuzzy_hit"
    """The name differs in one character, or sounds the same."""
    SIMILAR_HIT = "similar_hit"
    """The name means something similar. Such a device is only a candidate."""
    ROOM_HIT = "room_hit"
    TYPE_HIT = "type_hit"
    REFERENCE_HIT = "reference_hit"


class ResolvedCommandCall(Message):
    """Command of a device that does what the sentence asks for."""

    id: str
    capability: str
    command: str
    description: dict[str, str]
    score: float
    """Calibrated relevance of the command for the action, from 0 to 1."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the command that the sentence gives, by the names that the command has for them."""


class RecalledDevice(Message):
    """Device that the sentence may mean."""

    id: str
    name: str
    room: str | None
    type: str
    reasons: tuple[RecallReason, ...]
    confidence: float
    """Confidence that this device is meant, from 0 to 1."""


class ResolvedDevice(RecalledDevice):
    """Device with the command that it is to carry out."""

    command: ResolvedCommandCall


class DropReason(StrEnum):
    """Reason why a recalled device is not in the result."""

    NO_COMMANDS = "no_commands"
    """The library has no command of the device."""
    NO_COMMAND_FITS = "no_command_fits"
    """No command of the device reaches the threshold."""
    ARGUMENT_REFUSED = "argument_refused"
    """The command does not accept the value, or needs one that the sentence does not give."""


class DroppedDevice(Message):
    """Recalled device that is not in the result."""

    id: str
    name: str
    reason: DropReason
    detail: str
    """Explanation for people, such as the best command and its score."""
    best_score: float | None = None


class ResolutionStatus(StrEnum):
    """Outcome for one command of a sentence."""

    RESOLVED = "resolved"
    AMBIGUOUS = "ambiguous"
    """Several devices may be meant: `candidates`, and a question."""
    UNRESOLVED = "unresolved"
    """A reference stands for nothing that the dialogue mentioned: a question."""
    NO_DEVICE = "no_device"
    """The home has no such device."""
    NO_COMMAND = "no_command"
    """The devices have no command for the action: see `dropped`."""
    NOT_UNDERSTOOD = "not_understood"
    """The sentence names no action."""


class ResolvedQuery(Message):
    """Outcome for one command of a sentence."""

    query: QueryIR
    status: ResolutionStatus
    devices: tuple[ResolvedDevice, ...] = ()
    more_devices: int = 0
    """Number of further devices that are meant and that the reply has no room for. Name fewer rooms to get them."""
    candidates: tuple[RecalledDevice, ...] = ()
    """Devices to choose from, best first, at most 20."""
    dropped: tuple[DroppedDevice, ...] = ()
    """At most 100."""
    question: str | None = None
    """Question back to the speaker, in the language of the sentence."""
    confidence: float
    """Confidence in the whole outcome, from 0 to 1."""


class CommandResolved(ParseReply):
    """Devices and commands for each command of the sentence, in its order."""

    results: tuple[ResolvedQuery, ...]
    """Empty if the sentence is no command."""
    stages: tuple[SearchStage, ...] = ()
    """Times of `home`, `parse`, `recall` and `commands`, and of `similar` where no device has the name."""


SEARCH_COMMANDS: Final = Endpoint(
    service=SERVICE,
    name="search_commands",
    request=SearchCommands,
    reply=CommandsFound,
    summary="Find the commands of the library that do what a query asks for, in any language.",
    is_read=True,
    raises=(ErrorCode.VECTOR_STORE_UNAVAILABLE,),
    timeout_s=10.0,
    example={"query": "把声音调大", "limit": 3},
)
PARSE_QUERY: Final = Endpoint(
    service=SERVICE,
    name="parse_query",
    request=ParseQuery,
    reply=QueryParsed,
    summary="Parse a spoken command in Chinese or English into its fields.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.MODEL_UNAVAILABLE),
    timeout_s=30.0,
    example={"text": "打开除卧室以外的灯"},
)
RESOLVE_COMMAND: Final = Endpoint(
    service=SERVICE,
    name="resolve_command",
    request=ResolveCommand,
    reply=CommandResolved,
    summary="Resolve a spoken command to devices of a home and their commands with arguments.",
    raises=(ErrorCode.NOT_FOUND, ErrorCode.VECTOR_STORE_UNAVAILABLE, ErrorCode.MODEL_UNAVAILABLE),
    timeout_s=30.0,
    example={"text": "打开除卧室以外的灯", "home": "Green House"},
)
