"""A measurement of spoken commands over a real bus, of services that answer as they are told to."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.indexer.commands import PUT_COMMANDS, CommandPut, CommandSpec, CommandsPut, PutCommands
from skillbus.contracts.indexer.devices import PUT_DEVICES, Device, DevicePut, DevicesPut, PutDevices, PutOutcome
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandHit,
    CommandResolved,
    CommandsFound,
    ParseQuery,
    QueryParsed,
    RecalledDevice,
    ResolutionStatus,
    ResolveCommand,
    ResolvedQuery,
    SearchCommands,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.evaluation.cases import EvaluationError
from skillbus.evaluation.queryir.answers import collect_command_hits, collect_sentence_answers
from skillbus.evaluation.queryir.rows import QueryIrCases, SentenceRow

ON = CommandSpec.model_validate(
    {"id": "switch.on", "capability": {"id": "switch"}, "command": {"id": "on"}, "description": "打开设备"}
)
HIT = CommandHit(id="switch.on", capability="switch", command="on", description={}, score=1.0, cosine=1.0)


@dataclass
class FakeServices:
    """Takes homes and commands, reads every sentence as its own action, and recalls what was mentioned."""

    refused: str | None = None
    indexed: bool = True
    homes: dict[str, str] = field(default_factory=dict)
    resolved: list[ResolveCommand] = field(default_factory=list)
    projects: set[str] = field(default_factory=set)

    async def put_devices(self, request: PutDevices) -> DevicesPut:
        self.projects.add(request.project)
        results = []
        for device in request.devices:
            assert isinstance(device, dict)
            name, home = str(device["id"]), str(device["home"])
            outcome = PutOutcome.REJECTED if name == self.refused else PutOutcome.CREATED
            self.homes[name] = home
            results.append(DevicePut(home=home, id=name, outcome=outcome, error="too odd"))
        return DevicesPut(results=tuple(results), indexed=self.indexed)

    async def put_commands(self, request: PutCommands) -> CommandsPut:
        results = (CommandPut(id="x", outcome=PutOutcome.CREATED) for _ in request.commands)
        return CommandsPut(results=tuple(results), indexed=self.indexed)

    async def parse_query(self, request: ParseQuery) -> QueryParsed:
        query = QueryIR(action=request.text, name_hint=request.home, confidence=1.0)
        return QueryParsed(parsed_by="rules", took_ms=1.0, queries=(query,))

    async def resolve_command(self, request: ResolveCommand) -> CommandResolved:
        self.resolved.append(request)
        found = [
            RecalledDevice(id=it, name=it, room=None, type="light", reasons=(), confidence=1.0)
            for it in request.last_mentioned or ()
        ]
        result = ResolvedQuery(
            query=QueryIR(confidence=1.0),
            status=ResolutionStatus.AMBIGUOUS,
            candidates=tuple(found),
            confidence=1.0,
        )
        return CommandResolved(parsed_by="rules", took_ms=1.0, results=(result,))

    async def search_commands(self, request: SearchCommands) -> CommandsFound:
        assert (request.limit, request.threshold) == (10, None)
        return CommandsFound(results=(HIT.model_copy(update={"command": request.query}),), took_ms=1.0)


@pytest.fixture
async def services(bus_settings: BusSettings) -> AsyncGenerator[FakeServices]:
    fake = FakeServices()
    async with open_bus(bus_settings, "services", CollectorRegistry()) as opened:
        responder = Responder(opened.client, "test", "0.1.0", opened.metrics)
        await responder.start(
            route(PUT_DEVICES, fake.put_devices),
            route(PUT_COMMANDS, fake.put_commands),
            route(PARSE_QUERY, fake.parse_query),
            route(RESOLVE_COMMAND, fake.resolve_command),
            route(SEARCH_COMMANDS, fake.search_commands),
        )
        yield fake
        await responder.drain()


def cases() -> QueryIrCases:
    base = {"lang": "zh", "inventory": "h", "ir": {"action": "x"}}
    rows = [
        base | {"id": "1", "utterance": "打开那个", "expected_devices": ["a"], "context": {"last_mentioned": ["a"]}},
        base | {"id": "2", "utterance": "开灯", "expected_devices": []},
        base | {"id": "3", "utterance": "关灯"},
    ]
    devices = [{"home": "h", "id": name, "name": name, "type": "light"} for name in "ab"]
    parsed = tuple(SentenceRow.model_validate(row) for row in rows)
    return QueryIrCases(parsed, {"h": [Device.model_validate(it) for it in devices]}, (ON,))


def silent(step: str, done: int, total: int) -> None:
    """Nobody looks."""


async def test_sentences_are_parsed_and_those_with_known_devices_resolved(bus: Bus, services: FakeServices) -> None:
    answers = await collect_sentence_answers(bus.caller, cases(), silent)
    assert [(it.queries[0].action, it.queries[0].name_hint) for it in answers] == [
        ("打开那个", "h"),
        ("开灯", "h"),
        ("关灯", "h"),
    ]
    assert [it.recalled for it in answers] == [{"a"}, frozenset(), None]
    assert {it.text: it.last_mentioned for it in services.resolved} == {"打开那个": ("a",), "开灯": None}
    assert (services.homes, services.projects) == ({"a": "h", "b": "h"}, {"evaluation"})


async def test_each_query_is_answered_by_its_hits(bus: Bus, services: FakeServices) -> None:
    found = await collect_command_hits(bus.caller, [ON], ["亮一点", "暗一点"], silent)
    assert [[hit.command for hit in hits] for hits in found] == [["亮一点"], ["暗一点"]]


async def test_a_device_that_is_refused_ends_it(bus: Bus, services: FakeServices) -> None:
    services.refused = "b"
    with pytest.raises(EvaluationError, match="'b': too odd"):
        await collect_sentence_answers(bus.caller, cases(), silent)


async def test_what_is_not_indexed_ends_it(bus: Bus, services: FakeServices) -> None:
    services.indexed = False
    with pytest.raises(EvaluationError, match="not everything was indexed"):
        await collect_command_hits(bus.caller, [ON], ["x"], silent)
