"""Ports of the command search: the index of commands, and the scores of commands for the phrases of a sentence."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.indexer.commands import CommandArgument
from skillbus.relevance.household.meaning import Meaning
from skillbus.retriever.domain.index import EmbeddedQuery, IndexCandidate, LiveIndex


@dataclass(frozen=True, slots=True)
class IndexedCommand:
    """A command of the index."""

    id: str
    capability: str
    command: str
    description: Mapping[str, str]
    arguments: tuple[CommandArgument, ...]
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class WantedCommands:
    """Conditions for candidates: any of the capabilities or ids; without both, every command of the project."""

    project: str
    capabilities: tuple[str, ...] = ()
    command_ids: tuple[str, ...] = ()


class CommandIndex(Protocol):
    """The index of commands. Every method raises StoreUnavailableError."""

    async def find_live_index(self) -> LiveIndex | None:
        """Return the index that is searched now; None while no command was ever indexed."""
        ...

    async def find_candidates(
        self, live: LiveIndex, queries: Sequence[EmbeddedQuery], wanted: WantedCommands, count: int
    ) -> Sequence[Sequence[IndexCandidate]]:
        """Return the candidates of each query, `count` of each side: in two batches, however many queries there are."""
        ...

    async def load_commands(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, IndexedCommand]:
        """Return the commands at these points; points deleted since are left out."""
        ...

    async def load_terms(self, live: LiveIndex, points: Sequence[str]) -> Mapping[str, Container[int]]:
        """Return the indices of the terms that these commands hold; points that are gone are left out."""
        ...


@dataclass(frozen=True, slots=True)
class ScoredCommand:
    """A command of the library, with its relevance for each of several phrases."""

    id: str
    capability: str
    command: str
    description: Mapping[str, str]
    arguments: tuple[CommandArgument, ...]
    scores: tuple[float, ...]
    """Calibrated relevance from 0 to 1 for each phrase, in the order of the phrases."""


@dataclass(frozen=True, slots=True)
class CommandScores:
    """Commands with their scores."""

    commands: tuple[ScoredCommand, ...] = ()
    """By their best score, highest first."""
    model: str | None = None
    """Name of the model that embedded the phrases."""
    degraded: bool = False
    """True if only words were compared."""


class CommandScorer(Protocol):
    async def score_commands(
        self, project: str, phrases: Sequence[str], capabilities: Sequence[str], command_ids: Sequence[str]
    ) -> CommandScores:
        """Score every command of these capabilities, and the commands with these ids, for each of the phrases.

        Without a capability and an id there is nothing to score. The store is asked once for all phrases, and a phrase
        that was embedded before is not embedded again. While only words can be compared, commands that share none
        with any phrase are left out.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder does not answer.
        """
        ...
