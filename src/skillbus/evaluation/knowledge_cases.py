"""Cases of knowledge search: items, and queries with the items that answer them.

A folder has `docs.jsonl`, with items in the form of `put_knowledge` and the `id` that queries name; and
`queries.jsonl`, or several such files like `scope_queries.jsonl`. A query has `query`, `relevant` (`id` and optionally
a `grade`, higher for better answers), and optionally `scope`, `lang` and `kind`. Lines with a blank query are skipped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.calibration.judged import load_lines
from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.tool_search import Query
from skillbus.contracts.scope import Scope
from skillbus.evaluation.cases import OTHER, detect_language, draw_sample

_DOCS = "docs.jsonl"
_QUERIES = "*queries.jsonl"


class Doc(KnowledgeDraft):
    """A line of the items."""

    id: str = Field(min_length=1, max_length=300)


class _Relevant(Message):
    id: str
    grade: float = Field(default=1.0, gt=0)


def _none_if_blank(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


class _QueryLine(Message):
    query: Annotated[Query | None, BeforeValidator(_none_if_blank)]
    """None for a blank query."""
    relevant: tuple[_Relevant, ...] = ()
    scope: Scope | None = None
    lang: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class KnowledgeCase:
    """A query to send."""

    query: str
    scope: str | None
    language: str
    kind: str
    """Kind of the line, or the name of its file."""
    grades: Mapping[str, float]
    """Grade of each item that answers the query; empty if nothing should be found."""
    across: frozenset[str]
    """Answering items in another language than the query."""
    absent: int = 0
    """Number of answering ids without an item, which are ignored, for example in a subset of the items."""


@dataclass(frozen=True, slots=True)
class KnowledgeCases:
    """A knowledge base and its queries."""

    docs: tuple[Doc, ...]
    lines: tuple[JsonValue, ...]
    """Items as in the file."""
    cases: tuple[KnowledgeCase, ...]

    def sampled(self, count: int) -> "KnowledgeCases":
        """Return a sample of `count` queries, drawn by `SEED`. The items stay complete."""
        return replace(self, cases=draw_sample(self.cases, count))


def load_knowledge_cases(folder: Path) -> KnowledgeCases:
    """Load all files of the folder.

    Raises:
        UnreadableFileError: a file is missing, unreadable or empty.
        BadLineError: a line is malformed, repeats an id, or names only ids that no item has.
    """
    read = list(load_lines(folder / _DOCS, Doc))
    languages = {doc.id: doc.lang or detect_language(f"{doc.title} {doc.content}") for _, doc in read}
    first_line: dict[str, int] = {}
    for line, doc in read:
        if first_line.setdefault(doc.id, line) != line:
            raise BadLineError(folder / _DOCS, line, f"id {doc.id!r} is also the id of line {first_line[doc.id]}")
    files = sorted(folder.glob(_QUERIES))
    if not files:
        raise UnreadableFileError(folder, f"it has no {_QUERIES}: a line is a query and the ids that answer it")
    docs = tuple(doc for _, doc in read)
    lines = tuple(doc.model_dump(mode="json", exclude_unset=True) for doc in docs)
    return KnowledgeCases(docs, lines, tuple(case for file in files for case in _load_file(file, languages)))


def load_knowledge_queries(path: Path) -> tuple[KnowledgeCase, ...]:
    """Load one file of queries without items, whose languages are not known then. Raises as `load_knowledge_cases`."""
    return tuple(
        KnowledgeCase(
            query=asked.query,
            scope=asked.scope,
            language=asked.lang or detect_language(asked.query),
            kind=asked.kind or path.stem,
            grades={answer.id: answer.grade for answer in asked.relevant},
            across=frozenset(),
        )
        for _, asked in load_lines(path, _QueryLine)
        if asked.query is not None
    )


def _load_file(path: Path, languages: Mapping[str, str]) -> Iterator[KnowledgeCase]:
    for line, asked in load_lines(path, _QueryLine):
        if asked.query is None:
            continue
        grades = {answer.id: answer.grade for answer in asked.relevant if answer.id in languages}
        if asked.relevant and not grades:
            raise BadLineError(path, line, f"relevant: {_DOCS} has no item with the id {asked.relevant[0].id!r}")
        language = asked.lang or detect_language(asked.query)
        across = frozenset(name for name in grades if _are_different(languages[name], language))
        absent = len(asked.relevant) - len(grades)
        yield KnowledgeCase(asked.query, asked.scope, language, asked.kind or path.stem, grades, across, absent)


def _are_different(one: str, other: str) -> bool:
    """Return True for two different languages. `OTHER` differs only from Chinese."""
    return one != other and ("zh" in {one, other} or OTHER not in {one, other})
