"""A catalogue, and requests with the tools that fit them: what a measurement is made of.

The files are those of `skillbus.calibration.judged`. Beyond that, a tool is as `put_tools` takes it, and a request may
have `any_of`: groups of tools of which each does the same, so that one of a group is as good as all of it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal

from pydantic import Field

from skillbus.calibration.errors import BadLineError
from skillbus.calibration.judged import JudgedQuery, JudgedTool, read_judged, read_lines
from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.contracts.retriever.tool_search import Query

SEED: Final = 7
_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
OTHER: Final = "other"
_ONE: Final = frozenset({"single", "any"})

Kind = Literal["single", "multi", "any", "no_match"]


class Request(JudgedQuery):
    """A line of the requests."""

    query: Query
    any_of: tuple[tuple[str, ...], ...] = Field(default=())


@dataclass(frozen=True, slots=True)
class Case:
    """A request to make."""

    query: str
    language: str
    kind: Kind
    wants: tuple[frozenset[str], ...]
    """What has to be found, by the ids of the tools that do: one of each. Empty if nothing should be found."""
    crosses_to: str | None
    """The language of the tools that fit, if all of them have another than the request and share it."""

    @property
    def relevant(self) -> frozenset[str]:
        """The tools that fit."""
        return frozenset().union(*self.wants)


@dataclass(frozen=True, slots=True)
class Cases:
    """What is measured."""

    tools: tuple[ToolDescription, ...]
    cases: tuple[Case, ...]

    def sampled(self, count: int) -> "Cases":
        """`count` of the requests, drawn by `SEED`; all of them if there are no more. The catalogue stays whole."""
        if count >= len(self.cases):
            return self
        rows = sorted(Random(SEED).sample(range(len(self.cases)), count))  # noqa: S311 (no secret)
        return Cases(self.tools, tuple(self.cases[row] for row in rows))


def read_cases(tools: Path, queries: Path) -> Cases:
    """Both files.

    Raises:
        UnreadableFileError: one is missing, cannot be read or is empty.
        BadLineError: a line is no tool or no request, bears an id for the second time or one that no tool has.
    """
    judged = read_judged(tools, queries)
    described = [tool for _, tool in read_lines(tools, ToolDescription)]
    languages = {tool.id: _language_of_tool(tool) for tool in judged.tools}
    return Cases(
        tools=tuple(described),
        cases=tuple(_case(request, languages) for request in _requests(queries)),
    )


def _requests(path: Path) -> Iterator[Request]:
    for line, request in read_lines(path, Request):
        for group in request.any_of:
            if stray := [tool for tool in group if tool not in request.relevant]:
                raise BadLineError(path, line, f"any_of: {stray[0]!r} is not among `relevant`")
        yield request


def _case(request: Request, languages: dict[str, str]) -> Case:
    language = request.lang or language_of(request.query)
    relevant = {languages[tool] for tool in request.relevant}
    crosses = len(relevant) == 1 and language not in relevant
    kind = request.kind or _kind(request.relevant)
    return Case(request.query, language, kind, _wants(request, kind), relevant.pop() if crosses else None)


def _kind(relevant: Sequence[str]) -> Kind:
    if not relevant:
        return "no_match"
    return "single" if len(relevant) == 1 else "multi"


def _wants(request: Request, kind: Kind) -> tuple[frozenset[str], ...]:
    if not request.relevant:
        return ()
    if kind in _ONE:
        return (frozenset(request.relevant),)
    groups = [frozenset(group) for group in request.any_of if group]
    grouped = frozenset().union(*groups)
    return (*groups, *(frozenset({tool}) for tool in dict.fromkeys(request.relevant) if tool not in grouped))


def _language_of_tool(tool: JudgedTool) -> str:
    return tool.lang or language_of(f"{tool.name} {tool.description}")


def language_of(text: str) -> str:
    """Where a line does not say: what is written in Han characters is taken for Chinese, all else is not told apart."""
    return "zh" if _HAN.search(text) else OTHER
