"""Record of a command of the library, and the form in which all commands are kept in memory."""

import hashlib
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.indexer.commands import CommandSpec, ListCommands
from skillbus.contracts.message import ProjectMessage
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.record.values import check_size, validate_value

_ARGUMENTS_BYTES: Final = 64 * 1024


class CommandRecord(ProjectMessage):
    """A command of the library of a project."""

    command: CommandSpec

    @property
    def key(self) -> Key:
        return self.project, self.command.id

    @property
    def digest(self) -> str:
        """Digest of the command. A new optional field does not change it."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def content(self) -> bytes:
        """The command as JSON."""
        return self.command.model_dump_json(exclude_defaults=True).encode()


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """Some kilobyte of a command."""

    key: Key
    digest: str
    capability: str
    content: bytes
    """The command as JSON, which takes a quarter of the memory of the object."""

    @property
    def id(self) -> str:
        return self.key[1]

    def matches(self, request: ListCommands) -> bool:
        """Return True if the command matches the filters of a request."""
        return request.capability in {None, self.capability} and (
            request.text is None or self._has_text(request.text.casefold())
        )

    def to_command(self) -> CommandSpec:
        return CommandSpec.model_validate_json(self.content)

    def _has_text(self, text: str) -> bool:
        return text in "\n".join((self.id, *self.to_command().description.values())).casefold()


def list_command(record: CommandRecord) -> ListedCommand:
    command, content = record.command, record.content
    return ListedCommand(
        key=record.key,
        digest=hashlib.sha256(content).hexdigest(),
        capability=command.capability.id,
        content=content,
    )


def parse_command(project: str, value: JsonValue) -> CommandRecord:
    """Parse a command. Raises RefusedValueError."""
    command = validate_value(CommandSpec, value)
    check_size("arguments", [argument.model_dump(mode="json") for argument in command.arguments], _ARGUMENTS_BYTES)
    return CommandRecord.model_construct(project=project, command=command)
