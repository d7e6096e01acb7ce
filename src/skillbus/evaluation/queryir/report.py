"""Reports on spoken commands and on the search of commands."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from skillbus.contracts.retriever.command_resolution import CommandHit
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.evaluation.queryir.command_queries import CommandQuery
from skillbus.evaluation.queryir.rows import QueryIrCases, SentenceRow
from skillbus.evaluation.queryir.score import WrongField, compare_queries


@dataclass(frozen=True, slots=True)
class SentenceAnswer:
    """Answer to a sentence."""

    queries: tuple[QueryIR, ...]
    recalled: frozenset[str] | None
    """Devices that were recalled, before any is dropped for its commands; None if the row does not say which."""


@dataclass(frozen=True, slots=True)
class SetFigures:
    """Figures of the sentences of one source and language."""

    n: int
    exact: float
    """Share of the sentences with all fields right."""
    devices: float | None
    """Share of the sentences with exactly the expected devices, of those that say which; None if none does."""


@dataclass(frozen=True, slots=True)
class SentenceFailure:
    """Sentence that was not understood as expected."""

    id: str
    utterance: str
    wrong: tuple[WrongField, ...]
    """Wrong fields; `devices` for other devices than the expected ones."""


@dataclass(frozen=True, slots=True)
class QueryIrReport:
    """Figures of each set of sentences."""

    sets: Mapping[str, SetFigures]
    failures: tuple[SentenceFailure, ...]

    def document(self, *, with_failures: bool = False) -> dict[str, object]:
        """Return the report as JSON values."""
        document: dict[str, object] = {"sets": {name: asdict(it) for name, it in self.sets.items()}}
        return document | ({"failures": list(map(asdict, self.failures))} if with_failures else {})


def build_queryir_report(cases: QueryIrCases, answers: Sequence[SentenceAnswer]) -> QueryIrReport:
    """Score each sentence, and count by set."""
    exact, chosen = defaultdict[str, list[bool]](list), defaultdict[str, list[bool]](list)
    failures = []
    for row, answer in zip(cases.rows, answers, strict=True):
        wrong = compare_queries(row, answer.queries, cases.homes[row.inventory])
        exact[row.set_name].append(not wrong)
        if (other := _compare_devices(row, answer)) is not None:
            chosen[row.set_name].append(not other)
            wrong += other
        if wrong:
            failures.append(SentenceFailure(row.id, row.utterance, wrong))
    sets = {
        name: SetFigures(len(exact[name]), _compute_share(exact[name]) or 0.0, _compute_share(chosen[name]))
        for name in sorted(exact)
    }
    return QueryIrReport(sets, tuple(failures))


def _compare_devices(row: SentenceRow, answer: SentenceAnswer) -> tuple[WrongField, ...] | None:
    """Return the difference between the recalled devices and the expected ones; None if the row does not say which."""
    if row.expected_devices is None:
        return None
    expected, found = set(row.expected_devices), answer.recalled or frozenset()
    if expected == found:
        return ()
    return (WrongField("devices", ", ".join(sorted(expected)) or "-", ", ".join(sorted(found)) or "-"),)


def _compute_share(right: Sequence[bool]) -> float | None:
    return sum(right) / len(right) if right else None


@dataclass(frozen=True, slots=True)
class CommandMiss:
    """Query without a command of the expected capabilities at the first place."""

    query: str
    expected: tuple[str, ...]
    found: tuple[str, ...]
    """Ids of the best commands."""
    rank: int | None
    """Place of the first expected command; None after the tenth."""


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Figures of the search of commands."""

    n: int
    hit_at_1: float
    hit_at_10: float
    misses: tuple[CommandMiss, ...]

    def document(self, *, with_failures: bool = False) -> dict[str, object]:
        """Return the report as JSON values."""
        document: dict[str, object] = {"n": self.n, "hit@1": self.hit_at_1, "hit@10": self.hit_at_10}
        return document | ({"failures": list(map(asdict, self.misses))} if with_failures else {})


def build_command_report(queries: Sequence[CommandQuery], found: Sequence[Sequence[CommandHit]]) -> CommandReport:
    """Find the place of the first hit of an expected capability for each query."""
    ranks, misses = list[int | None](), list[CommandMiss]()
    for query, hits in zip(queries, found, strict=True):
        places = (place for place, hit in enumerate(hits, 1) if hit.capability in query.expected_capability)
        rank = next(places, None)
        ranks.append(rank)
        if rank != 1:
            best = tuple(hit.id for hit in hits[:3])
            misses.append(CommandMiss(query.query, query.expected_capability, best, rank))
    return CommandReport(
        n=len(ranks),
        hit_at_1=sum(rank == 1 for rank in ranks) / len(ranks),
        hit_at_10=sum(rank is not None for rank in ranks) / len(ranks),
        misses=tuple(misses),
    )
