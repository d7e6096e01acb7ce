"""Ports of the command search: the index of commands, and the scores of commands for the actions of a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.indexer.commands import CommandArgument


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
    """By the sum of their scores, best first."""
    model: str | None = None
    """Name of the model that embedded the phrases."""
    degraded: bool = False
    """True if only words were compared."""


class CommandScorer(Protocol):
    async def score_commands(
        self, project: str, phrases: Sequence[str], capabilities: Sequence[str], command_ids: Sequence[str]
    ) -> CommandScores:
        """Score every command of these capabilities, and the commands with these ids, for each of the phrases.

        Without a capability and an id there is nothing to score. All phrases take one batch of the store, and a phrase
        that was embedded before is not embedded again.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder does not answer.
        """
        ...
