"""Judged data of a calibration: tools, requests, and the relevant tools of each request.

Both are files of JSON lines. A tool has `id`, `name`, `description`, and optionally `tags`, `parameters` (the JSON
Schema of its arguments), `examples` and `provider`. A request has `query`, `relevant` (ids of relevant tools, empty if
nothing should be found), and optionally `source` (all sources have equal weight) and `kind`: `single` (any relevant
tool is enough), `multi` (it takes several), `any`, `no_match`.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, StringConstraints, ValidationError

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.contracts.message import Message
from skillbus.contracts.validation import describe_problems
from skillbus.relevance.tool_text import build_tool_aside_text, build_tool_dense_text, build_tool_lexical_text

Bools = NDArray[np.bool_]
LineT = TypeVar("LineT", bound=Message)
NonBlankText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_768)]


class JudgedTool(Message):
    """A line of the tools."""

    id: str = Field(min_length=1)
    name: NonBlankText
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: dict[str, JsonValue] | None = None
    examples: tuple[str, ...] = ()
    provider: str = ""
    lang: str = ""

    @property
    def dense_text(self) -> str:
        """Text that the model embeds."""
        return build_tool_dense_text(self.name, self.description, self.tags, self.parameters)

    @property
    def lexical_text(self) -> str:
        """Text for BM25."""
        return build_tool_lexical_text(self.name, self.description, self.tags, self.parameters, self.examples)

    @property
    def aside_text(self) -> str:
        """Text for BM25 that counts half."""
        return build_tool_aside_text(self.provider, self.parameters)


class JudgedQuery(Message):
    """A line of the requests."""

    query: NonBlankText
    relevant: tuple[str, ...]
    kind: Literal["single", "multi", "any", "no_match"] | None = None
    source: str = ""
    lang: str = ""

    @property
    def wants_one(self) -> bool:
        """True if one relevant tool is enough. Without a `kind`, the number of relevant tools decides."""
        return len(self.relevant) == 1 if self.kind is None else self.kind == "single"


@dataclass(frozen=True, slots=True)
class Judged:
    """Tools and queries. `relevant[i]` holds the rows in `tools` of the relevant tools of `queries[i]`."""

    tools: tuple[JudgedTool, ...]
    queries: tuple[JudgedQuery, ...]
    relevant: tuple[frozenset[int], ...]

    @property
    def sources(self) -> NDArray[np.str_]:
        """Source of each query."""
        return np.array([query.source for query in self.queries], dtype=np.str_)

    @property
    def answerable(self) -> Bools:
        """Mask of the queries with a relevant tool."""
        return np.array([bool(tools) for tools in self.relevant], dtype=np.bool_)

    @property
    def for_one_tool(self) -> Bools:
        """Mask of the queries for which one tool is enough: otherwise each tool is only partly relevant."""
        wanted = [query.wants_one for query in self.queries]
        return self.answerable & np.array(wanted, dtype=np.bool_)


def load_judged(tools: Path, queries: Path) -> Judged:
    """Load both files.

    Raises:
        UnreadableFileError: a file is missing, unreadable or empty.
        BadLineError: a line is not JSON, lacks a field, repeats an id, or names one that no tool has.
    """
    known = list(load_lines(tools, JudgedTool))
    row_of: dict[str, int] = {}
    for row, (line, tool) in enumerate(known):
        if row_of.setdefault(tool.id, row) != row:
            raise BadLineError(tools, line, f"id {tool.id!r} is also the id of line {known[row_of[tool.id]][0]}")
    asked = list(load_lines(queries, JudgedQuery))
    for line, query in asked:
        unknown = [tool for tool in query.relevant if tool not in row_of]
        if unknown:
            raise BadLineError(queries, line, f"relevant: {tools} has no tool with the id {unknown[0]!r}")
    relevant = tuple(frozenset(row_of[tool] for tool in query.relevant) for _, query in asked)
    return Judged(tuple(tool for _, tool in known), tuple(query for _, query in asked), relevant)


def load_lines(path: Path, value: type[LineT]) -> Iterator[tuple[int, LineT]]:
    """Yield values with their line numbers. Empty lines are skipped."""
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or str(error)) from error
    if not content.strip():
        raise UnreadableFileError(path, "it is empty; it needs one JSON object per line")
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, value.model_validate_json(line)
            except ValidationError as error:
                raise BadLineError(path, number, describe_problems(error, limit=1)) from error
