"""Replies of the REST API to imports of devices and commands. The gateway writes them, clients read them."""

from pydantic import Field

from skillbus.contracts.http import ImportedLine
from skillbus.contracts.indexer.commands import CommandPut
from skillbus.contracts.indexer.devices import DevicePut, PutOutcome
from skillbus.contracts.message import Message


class DeviceLineImported(DevicePut):
    """Result for one device of an import."""

    line: ImportedLine

    @property
    def is_problem(self) -> bool:
        """True if an operator should look at the line."""
        return self.outcome is PutOutcome.REJECTED


class CommandLineImported(CommandPut):
    """Result for one command of an import."""

    line: ImportedLine

    @property
    def is_problem(self) -> bool:
        """True if an operator should look at the line."""
        return self.outcome is PutOutcome.REJECTED


class ImportReport(Message):
    """Result of an import of devices or commands, without that of each line."""

    total: int
    counts: dict[PutOutcome, int] = Field(default_factory=dict)
    """Number of lines by outcome. Every outcome is listed, also with 0."""
    indexed: bool
    """True if the index already holds all of them. False if the vector store or the embedder is away; the indexer then
    adds them later."""


class DevicesImported(ImportReport):
    """Result of an import of devices."""

    results: tuple[DeviceLineImported, ...] = ()
    """Results in the order of the body. With `only=problems`, lines without a problem are left out."""
    unknown_capabilities: tuple[str, ...] = ()
    """Capabilities of these devices that no command of the library has, the first 100. Empty while the library is
    empty."""


class CommandsImported(ImportReport):
    """Result of an import of commands."""

    results: tuple[CommandLineImported, ...] = ()
    """Results in the order of the body. With `only=problems`, lines without a problem are left out."""
