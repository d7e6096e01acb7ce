"""Tools, requests, and which tools fit which request: what a calibration is fitted on.

Both are files of JSON lines. A tool: `id`, `name`, `description`, and if it has them `tags`, `parameters` (the JSON
Schema of its arguments), `examples` and `provider`. A request: `query`, `relevant` (ids of the tools that fit; none if
nothing should be found), and if known `source` (requests of each source weigh the same together) and `kind`: `single`
(any tool of `relevant` does it alone), `multi` (it takes several), `any`, `no_match`.
"""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue, StringConstraints, ValidationError

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.contracts.message import Message
from skillbus.relevance.tool_text import build_tool_aside_text, build_tool_dense_text, build_tool_lexical_text

Bools = NDArray[np.bool_]
LineT = TypeVar("LineT", bound=Message)
Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_768)]


class JudgedTool(Message):
    """A tool that a request may want."""

    id: str = Field(min_length=1)
    name: Said
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: dict[str, JsonValue] | None = None
    examples: tuple[str, ...] = ()
    provider: str = ""
    lang: str = ""

    @property
    def dense_text(self) -> str:
        """What of it the model embeds."""
        return build_tool_dense_text(self.name, self.description, self.tags, self.parameters)

    @property
    def lexical_text(self) -> str:
        """What of it BM25 reads."""
        return build_tool_lexical_text(self.name, self.description, self.tags, self.parameters, self.examples)

    @property
    def aside_text(self) -> str:
        """What of it counts half for BM25."""
        return build_tool_aside_text(self.provider, self.parameters)


class JudgedQuery(Message):
    """A request, and the tools that fit it."""

    query: Said
    relevant: tuple[str, ...]
    kind: Literal["single", "multi", "any", "no_match"] | None = None
    source: str = ""
    lang: str = ""

    @property
    def wants_one(self) -> bool:
        """Whether a tool that fits does all of it; if nobody says, by the number of those that do."""
        return len(self.relevant) == 1 if self.kind is None else self.kind == "single"


@dataclass(frozen=True, slots=True)
class Judged:
    """`relevant[i]` are the rows in `tools` of what fits `queries[i]`."""

    tools: tuple[JudgedTool, ...]
    queries: tuple[JudgedQuery, ...]
    relevant: tuple[frozenset[int], ...]

    @property
    def sources(self) -> NDArray[np.str_]:
        """Of each query."""
        return np.array([query.source for query in self.queries], dtype=np.str_)

    @property
    def answerable(self) -> Bools:
        """Which queries some tool fits."""
        return np.array([bool(tools) for tools in self.relevant], dtype=np.bool_)

    @property
    def for_one_tool(self) -> Bools:
        """Which queries some tool fits wholly: of several wanted, each fits only in part."""
        wanted = [query.wants_one for query in self.queries]
        return self.answerable & np.array(wanted, dtype=np.bool_)


def read_judged(tools: Path, queries: Path) -> Judged:
    """Both files.

    Raises:
        UnreadableFileError: one is missing, cannot be read or is empty.
        BadLineError: a line is not JSON, lacks a field, bears an id for the second time or one that no tool has.
    """
    known = list(read_lines(tools, JudgedTool))
    row_of: dict[str, int] = {}
    for row, (line, tool) in enumerate(known):
        if row_of.setdefault(tool.id, row) != row:
            raise BadLineError(tools, line, f"id {tool.id!r} is that of line {known[row_of[tool.id]][0]} too")
    asked = list(read_lines(queries, JudgedQuery))
    for line, query in asked:
        unknown = [tool for tool in query.relevant if tool not in row_of]
        if unknown:
            raise BadLineError(queries, line, f"relevant: {tools} has no tool with the id {unknown[0]!r}")
    relevant = tuple(frozenset(row_of[tool] for tool in query.relevant) for _, query in asked)
    return Judged(_values(known), _values(asked), relevant)


def read_lines(path: Path, value: type[LineT]) -> Iterator[tuple[int, LineT]]:
    """Values with the numbers of their lines; empty lines are passed over."""
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise UnreadableFileError(path, error.strerror or str(error)) from error
    if not content.strip():
        raise UnreadableFileError(path, "it is empty; one JSON object a line is needed")
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, _value(path, number, line, value)


def _value(path: Path, number: int, line: bytes, value: type[LineT]) -> LineT:
    try:
        return value.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadLineError(path, number, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _values(lines: Sequence[tuple[int, LineT]]) -> tuple[LineT, ...]:
    return tuple(value for _, value in lines)
