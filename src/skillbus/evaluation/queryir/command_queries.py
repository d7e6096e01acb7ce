"""Queries for commands: `spec_queries.jsonl` beside the library `spec.jsonl`.

A query has `query` and `expected_capability`, the capabilities of which any command is right.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field

from skillbus.calibration.judged import load_lines
from skillbus.contracts.indexer.commands import CommandSpec
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.tool_search import Query
from skillbus.evaluation.queryir.rows import COMMANDS

QUERIES: Final = "spec_queries.jsonl"


class CommandQuery(Message):
    """A line of the queries."""

    query: Query
    expected_capability: tuple[str, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class CommandCases:
    """A command library and its queries."""

    commands: tuple[CommandSpec, ...]
    queries: tuple[CommandQuery, ...]


def load_command_cases(folder: Path) -> CommandCases:
    """Load both files of the folder.

    Raises:
        UnreadableFileError: a file is missing, unreadable or empty.
        BadLineError: a line is malformed.
    """
    commands = tuple(command for _, command in load_lines(folder / COMMANDS, CommandSpec))
    return CommandCases(commands, tuple(query for _, query in load_lines(folder / QUERIES, CommandQuery)))
