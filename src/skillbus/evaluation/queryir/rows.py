"""Cases of spoken commands: sentences with the QueryIR that each means, and the homes in which they are said.

A folder has `queryir.jsonl` (sentences) and `inventory.jsonl` (devices, in the form of `put_devices`), and may have
`spec.jsonl` (commands, in the form of `put_commands`). A sentence has `id`, `utterance`, `lang`, `inventory` (its
home), `ir` (the expected fields), and optionally `source`, `context.last_mentioned` (devices that "it" stands for),
`accept` (further right values) and `expected_devices`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from skillbus.calibration.errors import BadLineError
from skillbus.calibration.judged import load_lines
from skillbus.contracts.indexer.commands import CommandSpec
from skillbus.contracts.indexer.devices import Device, HomeName
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.query_ir import Sentence

SENTENCES: Final = "queryir.jsonl"
DEVICES: Final = "inventory.jsonl"
COMMANDS: Final = "spec.jsonl"

_ANY: Final = "any"
_ONE: Final = "one"


def _translate_quantifier(value: object) -> object:
    """Return QueryIR's name of a quantifier: the data call `one` `any`."""
    return _ONE if value == _ANY else value


_Quantifier = Annotated[str | None, BeforeValidator(_translate_quantifier)]


class ExpectedQuery(Message):
    """Fields that a sentence means."""

    action: str
    action_code: str | None = None
    name_hint: str | None = None
    type_hint: str | None = None
    scope_include: tuple[str, ...] = ()
    scope_exclude: tuple[str, ...] = ()
    quantifier: _Quantifier = None
    references: tuple[str, ...] = ()


class AcceptedValues(Message):
    """Values that are right besides those of the `ExpectedQuery`."""

    action: tuple[str, ...] = ()
    action_code: tuple[str | None, ...] = ()
    name: tuple[str | None, ...] = ()
    type: tuple[str | None, ...] = ()
    quantifier: tuple[_Quantifier, ...] = ()
    name_or_scope: bool = False
    """True if the name of a device is right, and also its room with its type."""
    scope_exclude_kind: str | None = None
    """`type:TYPE` if what is excluded is a type: its name is right as well as its word."""


class _Context(Message):
    last_mentioned: tuple[str, ...] | None = None


class SentenceRow(Message):
    """A line of the sentences."""

    id: str = Field(min_length=1)
    utterance: Sentence
    lang: str = Field(min_length=1)
    inventory: HomeName
    context: _Context | None = None
    ir: ExpectedQuery
    accept: AcceptedValues | None = None
    expected_devices: tuple[str, ...] | None = None
    source: str = "unknown"

    @property
    def set_name(self) -> str:
        """Name of the set that the row counts in: its source up to the first `/`, and its language."""
        return f"{self.source.partition('/')[0]}-{self.lang}"

    @property
    def last_mentioned(self) -> tuple[str, ...] | None:
        """Devices that "it" stands for; None if the row does not say."""
        return self.context.last_mentioned if self.context is not None else None


@dataclass(frozen=True, slots=True)
class QueryIrCases:
    """Sentences, the devices of each home, and the command library."""

    rows: tuple[SentenceRow, ...]
    homes: Mapping[str, Sequence[Device]]
    commands: tuple[CommandSpec, ...]


def load_queryir_cases(folder: Path) -> QueryIrCases:
    """Load all files of the folder.

    Raises:
        UnreadableFileError: a file is missing, unreadable or empty.
        BadLineError: a line is malformed, repeats an id, or names a home without devices.
    """
    homes = defaultdict[str, list[Device]](list)
    for _, device in load_lines(folder / DEVICES, Device):
        homes[device.home].append(device)
    rows, first_line = list[SentenceRow](), dict[str, int]()
    for line, row in load_lines(folder / SENTENCES, SentenceRow):
        if first_line.setdefault(row.id, line) != line:
            raise BadLineError(folder / SENTENCES, line, f"id {row.id!r} is also the id of line {first_line[row.id]}")
        if row.inventory not in homes:
            raise BadLineError(folder / SENTENCES, line, f"inventory: {DEVICES} has no device of {row.inventory!r}")
        rows.append(row)
    commands = load_lines(folder / COMMANDS, CommandSpec) if (folder / COMMANDS).exists() else ()
    return QueryIrCases(tuple(rows), homes, tuple(command for _, command in commands))
