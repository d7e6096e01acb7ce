"""Cases of tool search: a catalogue, and requests with their relevant tools.

The files are those of `skillbus.calibration.judged`. A tool also has the form of `put_tools`, and a request may have
`any_of`: groups of interchangeable tools, of which one is enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, Literal, TypeVar

from pydantic import Field

from skillbus.calibration.errors import BadLineError
from skillbus.calibration.judged import JudgedQuery, load_judged, load_lines
from skillbus.common.characters import HAN_CHARACTER
from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.contracts.retriever.tool_search import Query

SEED: Final = 7
OTHER: Final = "other"
_ONE: Final = frozenset({"single", "any"})

Kind = Literal["single", "multi", "any", "no_match"]
CaseT = TypeVar("CaseT")


class EvaluationError(Exception):
    """The measured system refused the data, or did not index them. Errors of the files are `CalibrationError`s."""


class RequestLine(JudgedQuery):
    """A line of the requests."""

    query: Query
    any_of: tuple[tuple[str, ...], ...] = Field(default=())


@dataclass(frozen=True, slots=True)
class Case:
    """A request to send."""

    query: str
    language: str
    kind: Kind
    wants: tuple[frozenset[str], ...]
    """Sets of interchangeable tool ids; one of each set should be found. Empty if nothing should be found."""
    crosses_to: str | None
    """Common language of the relevant tools, if it differs from that of the request."""

    @property
    def relevant(self) -> frozenset[str]:
        """Ids of all relevant tools."""
        return frozenset().union(*self.wants)


@dataclass(frozen=True, slots=True)
class Cases:
    """A catalogue and its requests."""

    tools: tuple[ToolDescription, ...]
    cases: tuple[Case, ...]

    def sampled(self, count: int) -> "Cases":
        """Return a sample of `count` requests, drawn by `SEED`. The catalogue stays complete."""
        return replace(self, cases=draw_sample(self.cases, count))


def draw_sample(cases: Sequence[CaseT], count: int) -> tuple[CaseT, ...]:
    """Return `count` cases in their order, drawn by `SEED`; all if there are no more."""
    rows = Random(SEED).sample(range(len(cases)), min(count, len(cases)))  # noqa: S311 (no secret)
    return tuple(cases[row] for row in sorted(rows))


def load_cases(tools: Path, queries: Path) -> Cases:
    """Load both files.

    Raises:
        UnreadableFileError: a file is missing, unreadable or empty.
        BadLineError: a line is malformed, repeats an id, or names one that no tool has.
    """
    judged = load_judged(tools, queries)
    described = [tool for _, tool in load_lines(tools, ToolDescription)]
    languages = {tool.id: tool.lang or detect_language(f"{tool.name} {tool.description}") for tool in judged.tools}
    return Cases(tuple(described), load_requests(queries, languages))


def load_requests(path: Path, languages: Mapping[str, str]) -> tuple[Case, ...]:
    """Load requests alone. `languages` holds that of each tool that is known. Raises as `load_cases`."""
    cases = []
    for line, request in load_lines(path, RequestLine):
        for group in request.any_of:
            if stray := [tool for tool in group if tool not in request.relevant]:
                raise BadLineError(path, line, f"any_of: {stray[0]!r} is not among `relevant`")
        cases.append(_build_case(request, languages))
    return tuple(cases)


def _build_case(request: RequestLine, languages: Mapping[str, str]) -> Case:
    language = request.lang or detect_language(request.query)
    relevant = {languages[tool] for tool in request.relevant if tool in languages}
    crosses = len(relevant) == 1 and language not in relevant
    kind = request.kind
    if kind is None:
        kind = "no_match" if not request.relevant else "single" if len(request.relevant) == 1 else "multi"
    return Case(request.query, language, kind, _list_wants(request, kind), relevant.pop() if crosses else None)


def _list_wants(request: RequestLine, kind: Kind) -> tuple[frozenset[str], ...]:
    if not request.relevant:
        return ()
    if kind in _ONE:
        return (frozenset(request.relevant),)
    groups = [frozenset(group) for group in request.any_of if group]
    grouped = frozenset().union(*groups)
    return (*groups, *(frozenset({tool}) for tool in dict.fromkeys(request.relevant) if tool not in grouped))


def detect_language(text: str) -> str:
    """Guess the language of a text: Chinese if it has Han characters, otherwise `OTHER`."""
    return "zh" if HAN_CHARACTER.search(text) else OTHER
