"""The command library of a project, kept by the indexer: what devices can be told to do."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, FiniteFloat, JsonValue, StringConstraints, ValidationInfo, field_validator

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.indexer.devices import CapabilityId, CommandId, PutOutcome
from skillbus.contracts.message import NOT_BLANK, WITHOUT_NUL, Message, ProjectMessage, check_json

MAX_COMMANDS: Final = 500
"""Most commands of one `put_commands` request."""
MAX_COMMAND_IDS: Final = 2_000
"""Most ids of one `remove_commands` request."""

Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
CommandText = Annotated[
    str, StringConstraints(min_length=1, max_length=2_000, strip_whitespace=True), WITHOUT_NUL, NOT_BLANK
]

ArgumentSource = Literal[
    "brightness",
    "brightness_step",
    "colour",
    "colour_temperature",
    "temperature",
    "temperature_step",
    "humidity",
    "volume",
    "volume_step",
    "position",
    "level",
    "mode",
    "channel",
    "at",
    "after_s",
    "for_s",
]
"""Argument of a sentence: a field of `QueryArguments`."""


def _check_value(value: JsonValue) -> JsonValue:
    check_json(value)
    return value


AcceptedValue = Annotated[JsonValue, AfterValidator(_check_value)]


class CapabilityRef(Message):
    """Capability that a command belongs to."""

    id: CapabilityId


class CommandRef(Message):
    """Command within its capability."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL]


class CommandArgument(Message):
    """Argument of a command."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), WITHOUT_NUL]
    source: ArgumentSource | None = None
    """Value of the sentence that it takes. Absent means that it takes none."""
    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None
    values: tuple[AcceptedValue, ...] = Field(default=(), max_length=100)
    """Values that it accepts. Empty means all."""
    required: bool = False

    @field_validator("maximum")
    @classmethod
    def _is_no_empty_range(cls, given: float | None, info: ValidationInfo) -> float | None:
        minimum = info.data.get("minimum")
        if given is not None and minimum is not None and given < minimum:
            raise ValueError("must be at least `minimum`")
        return given


class CommandSpec(Message):
    """Command of a library; also one line of an import."""

    id: CommandId
    """Unique in the library, usually `<capability>.<command>`."""
    capability: CapabilityRef
    command: CommandRef
    description: Annotated[dict[Language, CommandText], Field(min_length=1, max_length=20)]
    """Description by language: `{"zh": "打开设备", "en": "Turn the device on"}`. Commands are found by it."""
    arguments: tuple[CommandArgument, ...] = Field(default=(), max_length=50)

    @field_validator("description", mode="before")
    @classmethod
    def _name_language(cls, given: object) -> object:
        """Take a description without a language as English or Chinese, by its characters."""
        if not isinstance(given, str):
            return given
        return {"zh" if any("\u4e00" <= character <= "\u9fff" for character in given) else "en": given}


class PutCommands(ProjectMessage):
    """Commands to add or replace. Each is accepted or rejected on its own."""

    commands: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_COMMANDS)
    """Values that should each be a `CommandSpec`."""


class CommandPut(Message):
    """Result for one command."""

    id: str | None
    """Absent if the value has no readable id."""
    outcome: PutOutcome
    error: str | None = None


class CommandsPut(Message):
    """Result for each command, in the order of the request."""

    results: tuple[CommandPut, ...]
    indexed: bool
    """True if search already finds all of them. If false, the indexer adds them when vector store and embedder are
    back."""


class RemoveCommands(ProjectMessage):
    """Commands to remove."""

    ids: tuple[CommandId, ...] = Field(min_length=1, max_length=MAX_COMMAND_IDS)


class CommandsRemoved(Message):
    """Ids of the commands that existed and were removed."""

    ids: tuple[str, ...]


class ListCommands(ProjectMessage):
    """Query for one page of the command library, ordered by id."""

    capability: CapabilityId | None = None
    """List only commands of this capability."""
    text: str | None = Field(default=None, max_length=200)
    """List only commands with this text in their id or descriptions, ignoring case."""
    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=500)
    """`next` of the page before."""


class CommandsListed(Message):
    """One page of commands."""

    commands: tuple[CommandSpec, ...]
    total: int
    next: str | None = None


PUT_COMMANDS: Final = Endpoint(
    service=SERVICE,
    name="put_commands",
    request=PutCommands,
    reply=CommandsPut,
    summary="Add or replace up to 500 commands of the library. Unchanged commands are not embedded again.",
    stores_data=True,
    timeout_s=60.0,
    example={
        "commands": [
            {
                "id": "switch.on",
                "capability": {"id": "switch"},
                "command": {"id": "on"},
                "description": {"zh": "打开设备", "en": "Turn the device on"},
            }
        ]
    },
    act=AuditedAct(made="results.id"),
)
REMOVE_COMMANDS: Final = Endpoint(
    service=SERVICE,
    name="remove_commands",
    request=RemoveCommands,
    reply=CommandsRemoved,
    summary="Remove commands from the library and the index.",
    timeout_s=60.0,
    example={"ids": ["switch.on"]},
    act=AuditedAct("ids", made="ids"),
)
LIST_COMMANDS: Final = Endpoint(
    service=SERVICE,
    name="list_commands",
    request=ListCommands,
    reply=CommandsListed,
    summary="List one page of the command library.",
    is_read=True,
    example={"limit": 10},
)
