"""Ports of the resolution: homes, what a dialogue mentioned last, parsers of sentences, and near names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillbus.contracts.retriever.command_resolution import Parser
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.queryir.home import Home
from skillbus.queryir.sentence import Language, SpeakerPlace


class HomeSource(Protocol):
    async def load_home(self, project: str, name: str) -> Home:
        """Return a home of a project in its last revision.

        Raises RequestError: `not_found` if the project has no such home, or the error of the indexer.
        """
        ...


class Dialogues(Protocol):
    """The devices that each session mentioned last, forgotten after ten minutes. Raises RequestError."""

    async def load_mentioned(self, project: str, home: str, session: str) -> Sequence[str]:
        """Return ids of devices; empty if the session mentioned none."""
        ...

    async def save_mentioned(self, project: str, home: str, session: str, devices: Sequence[str]) -> None:
        """Replace what the session mentioned last."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """Commands of a sentence, and the parser that read it."""

    queries: tuple[QueryIR, ...]
    language: Language
    model: str | None = None
    """Chat model that read it; None for the grammar."""
    model_problem: str | None = None
    """Reason why the grammar's reading is returned although a model was asked."""
    place: SpeakerPlace | None = None
    """Place of the speaker, if the sentence names it."""


class SentenceParser(Protocol):
    async def read_sentence(self, project: str, text: str, home: Home | None, parser: Parser) -> SentenceReading:
        """Return the commands of a sentence. Raises RequestError."""
        ...


class SimilarDevices(Protocol):
    async def find_similar_devices(self, project: str, home: str, name: str, limit: int) -> Sequence[str]:
        """Return ids of the devices of a home with names of a similar meaning, best first.

        Raises:
            StoreUnavailableError: The vector store cannot be reached.
            RequestError: The embedder does not answer.
        """
        ...
