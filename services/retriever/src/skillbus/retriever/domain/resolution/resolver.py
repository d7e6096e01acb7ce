"""From a spoken sentence to devices of a home and their commands."""

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.retriever.command_resolution import (
    CommandResolved,
    ParseQuery,
    QueryParsed,
    ResolveCommand,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.contracts.retriever.search_explanation import SearchStage
from skillbus.queryir.home import Home
from skillbus.queryir.recall import DeviceMatch, match_similar, recall_devices
from skillbus.queryir.sentence import Language, place_speaker
from skillbus.retriever.domain.commands.ports import CommandScorer
from skillbus.retriever.domain.explanation import StageTimer
from skillbus.retriever.domain.resolution.command_choice import CommandCheck
from skillbus.retriever.domain.resolution.outcome import MAX_CANDIDATES, decide_outcome, report_gap, report_similar
from skillbus.retriever.domain.resolution.ports import Dialogues, HomeSource, SentenceParser, SimilarDevices

MAX_MENTIONED = 1_000
"""Devices of a dialogue that are remembered."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Context that the commands of a sentence share."""

    request: ResolveCommand
    home: Home
    language: Language
    stages: "_Stages"
    max_bytes: int
    """Bytes of the reply for the devices of each command."""


class _Stages:
    """Times of stages that are repeated for each command of a sentence."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._devices: Counter[str] = Counter()

    @contextmanager
    def measure(self, name: str) -> Generator[None]:
        """Add the time inside to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - began

    def count(self, name: str, devices: int) -> None:
        """Add devices that are left after a stage."""
        self._devices[name] += devices

    def list_stages(self) -> tuple[SearchStage, ...]:
        """Return the stages in the order of their first use."""
        return tuple(
            SearchStage(name=name, took_ms=round(seconds * 1e3, 3), candidates=self._devices[name])
            for name, seconds in self._seconds.items()
        )


@dataclass(frozen=True, slots=True)
class CommandResolver:
    homes: HomeSource
    dialogues: Dialogues
    parser: SentenceParser
    scorer: CommandScorer
    similar: SimilarDevices

    async def parse_query(self, request: ParseQuery) -> QueryParsed:
        """Return the commands of a sentence.

        Raises:
            RequestError: The project has no such home, or the indexer does not answer.
        """
        timer = StageTimer()
        home = None if request.home is None else await self.homes.load_home(request.project, request.home)
        reading = await self.parser.read_sentence(request.project, request.text, home, request.parser)
        return QueryParsed(
            queries=place_speaker(reading.queries, reading.place, request.room),
            parsed_by="model" if reading.model else "rules",
            model=reading.model,
            model_problem=reading.model_problem,
            took_ms=timer.measure_ms(),
        )

    async def resolve_command(self, request: ResolveCommand) -> CommandResolved:
        """Return devices and commands for each command of a sentence; "it" of one stands for the devices before it.

        Raises:
            RequestError: The project has no such home, or the indexer, the embedder or JetStream does not answer.
            StoreUnavailableError: The vector store cannot be reached.
        """
        timer, stages = StageTimer(), _Stages()
        with stages.measure("home"):
            home = await self.homes.load_home(request.project, request.home)
        stages.count("home", len(home.devices))
        with stages.measure("parse"):
            reading = await self.parser.read_sentence(request.project, request.text, home, request.parser)
        queries = place_speaker(reading.queries, reading.place, request.room)
        mentioned = await self._load_mentioned(request, queries)
        turn = _Turn(request, home, reading.language, stages, MESSAGE_BYTES // max(len(queries), 1))
        results: list[ResolvedQuery] = []
        named: Sequence[str] | None = None
        for query in queries:
            result, named_now = await self._resolve(turn, query, mentioned if named is None else named)
            results.append(result)
            named = named if named_now is None else named_now
        if named is not None and request.session is not None:
            ids = named[:MAX_MENTIONED]
            await self.dialogues.save_mentioned(request.project, request.home, request.session, ids)
        return CommandResolved(
            results=tuple(results),
            parsed_by="model" if reading.model else "rules",
            model=reading.model,
            model_problem=reading.model_problem,
            stages=stages.list_stages(),
            took_ms=timer.measure_ms(),
        )

    async def _load_mentioned(self, request: ResolveCommand, queries: Sequence[QueryIR]) -> Sequence[str]:
        """Return what references of the sentence stand for, read only if it has one."""
        if request.last_mentioned is not None:
            return request.last_mentioned
        if request.session is None or not any(query.references for query in queries):
            return ()
        return await self.dialogues.load_mentioned(request.project, request.home, request.session)

    async def _resolve(
        self, turn: _Turn, query: QueryIR, mentioned: Sequence[str]
    ) -> tuple[ResolvedQuery, Sequence[str] | None]:
        """Return the outcome for a command, and the devices that "it" stands for afterwards; None: as before."""
        with turn.stages.measure("recall"):
            recall = recall_devices(query, turn.home, mentioned)
        turn.stages.count("recall", len(recall.matches))
        if recall.gap:
            return report_gap(query, recall, turn.language), None
        if not recall.matches:
            return await self._suggest_similar(turn, query), ()
        with turn.stages.measure("commands"):
            check = await self._check_commands(turn.request, query, recall.matches)
            result, named = decide_outcome(query, recall.matches, check, turn.language, turn.max_bytes)
        turn.stages.count("commands", len(result.devices) + result.more_devices)
        return result, named

    async def _check_commands(
        self, request: ResolveCommand, query: QueryIR, matches: Sequence[DeviceMatch]
    ) -> CommandCheck:
        capabilities = {each for match in matches for each in match.device.capabilities}
        ids = {each for match in matches for each in match.device.commands}
        phrase = query.action or request.text
        scores = await self.scorer.score_commands(request.project, (phrase,), sorted(capabilities), sorted(ids))
        return CommandCheck(scores.commands, query.arguments, request.threshold)

    async def _suggest_similar(self, turn: _Turn, query: QueryIR) -> ResolvedQuery:
        """Return devices with a similar name as candidates: nothing in the home has the name itself."""
        request = turn.request
        similar: Sequence[DeviceMatch] = ()
        if query.name_hint and not query.references:
            with turn.stages.measure("similar"):
                ids = await self.similar.find_similar_devices(
                    request.project, request.home, query.name_hint, MAX_CANDIDATES
                )
                similar = match_similar(query, turn.home, ids)
        return report_similar(query, similar, turn.language)
