"""A knowledge base, and queries with the items that answer them: what a measurement of its search is made of.

A folder has `docs.jsonl`, items as `put_knowledge` takes them, whose `id` is what queries name; and `queries.jsonl`,
beside which there may be more files of queries, as `scope_queries.jsonl`. A query: `query`, `relevant` (`id` and, if
some answer better than others, a higher `grade`), and if known `scope`, `lang` and `kind`. Lines
whose query is blank are passed over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.calibration.judged import read_lines
from skillbus.contracts.learner.knowledge import KnowledgeDraft
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.tool_search import Query
from skillbus.contracts.scope import Scope
from skillbus.evaluation.cases import OTHER, SEED, language_of

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


class _Asked(Message):
    query: Annotated[Query | None, BeforeValidator(_none_if_blank)]
    """None where the line has a blank one."""
    relevant: tuple[_Relevant, ...] = ()
    scope: Scope | None = None
    lang: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class KnowledgeCase:
    """A query to ask."""

    query: str
    scope: str | None
    language: str
    kind: str
    """What the file says, or the file's name where it does not."""
    grades: Mapping[str, float]
    """Of the items that answer it; empty if nothing should be found."""
    across: frozenset[str]
    """Those of them that are in another language."""
    absent: int = 0
    """Of ids that answer it, but that no item has: they are left out, as where a part of the items is measured."""


@dataclass(frozen=True, slots=True)
class KnowledgeCases:
    """What is measured."""

    docs: tuple[Doc, ...]
    lines: tuple[JsonValue, ...]
    """The items as they stand in the file."""
    cases: tuple[KnowledgeCase, ...]

    def sampled(self, count: int) -> "KnowledgeCases":
        """`count` of the queries, drawn by `SEED`; all of them if there are no more. The items stay whole."""
        if count >= len(self.cases):
            return self
        rows = sorted(Random(SEED).sample(range(len(self.cases)), count))  # noqa: S311 (no secret)
        return KnowledgeCases(self.docs, self.lines, tuple(self.cases[row] for row in rows))


def read_knowledge_cases(folder: Path) -> KnowledgeCases:
    """All files of the folder.

    Raises:
        UnreadableFileError: one is missing, cannot be read or is empty.
        BadLineError: a line is no item or no query, bears an id for the second time or only ids that no item has.
    """
    read = list(read_lines(folder / _DOCS, Doc))
    languages = {doc.id: doc.lang or language_of(f"{doc.title} {doc.content}") for _, doc in read}
    first_line: dict[str, int] = {}
    for line, doc in read:
        if first_line.setdefault(doc.id, line) != line:
            raise BadLineError(folder / _DOCS, line, f"id {doc.id!r} is that of line {first_line[doc.id]} too")
    files = sorted(folder.glob(_QUERIES))
    if not files:
        raise UnreadableFileError(folder, f"it has no {_QUERIES}: a line is a query and the ids that answer it")
    docs = tuple(doc for _, doc in read)
    lines = tuple(doc.model_dump(mode="json", exclude_unset=True) for doc in docs)
    return KnowledgeCases(docs, lines, tuple(case for file in files for case in _cases(file, languages)))


def _cases(path: Path, languages: Mapping[str, str]) -> Iterator[KnowledgeCase]:
    for line, asked in read_lines(path, _Asked):
        if asked.query is None:
            continue
        grades = {answer.id: answer.grade for answer in asked.relevant if answer.id in languages}
        if asked.relevant and not grades:
            raise BadLineError(path, line, f"relevant: {_DOCS} has no item with the id {asked.relevant[0].id!r}")
        language = asked.lang or language_of(asked.query)
        across = frozenset(name for name in grades if _are_two(languages[name], language))
        absent = len(asked.relevant) - len(grades)
        yield KnowledgeCase(asked.query, asked.scope, language, asked.kind or path.stem, grades, across, absent)


def kinds_of(cases: Sequence[KnowledgeCase]) -> tuple[str, ...]:
    """In order, each once."""
    return tuple(sorted({case.kind for case in cases}))


def _are_two(one: str, other: str) -> bool:
    """Where nobody says, Chinese alone is told from others."""
    return one != other and ("zh" in {one, other} or OTHER not in {one, other})
