"""A measurement over a real bus, of services that answer as they are told to."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.responder import Responder, route
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    MAX_TOOLS,
    PUT_TOOLS,
    PutTools,
    ToolDescription,
    ToolPut,
    ToolPutOutcome,
    ToolsPut,
    ToolType,
)
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound
from skillbus.evaluation.answers import collect_answers
from skillbus.evaluation.cases import Case, Cases, EvaluationError


@dataclass
class FakeServices:
    """Takes tools, and finds those whose name is a word of the request."""

    refused: str | None = None
    """Id of a tool that is not taken."""
    indexed: bool = True
    degraded: bool = False
    down: bool = False
    """Whether searches are refused."""
    names: dict[str, str] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    thresholds: list[float | None] = field(default_factory=list)
    projects: set[str] = field(default_factory=set)

    async def put_tools(self, request: PutTools) -> ToolsPut:
        tools = [ToolDescription.model_validate(tool) for tool in request.tools]
        self.batches.append(len(tools))
        self.projects.add(request.project)
        self.names |= {tool.id: tool.name for tool in tools}
        return ToolsPut(results=tuple(self._put(tool) for tool in tools), indexed=self.indexed)

    def _put(self, tool: ToolDescription) -> ToolPut:
        if tool.id == self.refused:
            return ToolPut(id=tool.id, outcome=ToolPutOutcome.REJECTED, error="too odd")
        return ToolPut(id=tool.id, outcome=ToolPutOutcome.CREATED)

    async def search_tools(self, request: SearchTools) -> ToolsFound:
        self.thresholds.append(request.threshold)
        self.projects.add(request.project)
        if self.down:
            raise RequestError(ErrorCode.VECTOR_STORE_UNAVAILABLE, "Qdrant connection failed")
        words, sure = request.query.split(), request.threshold is None
        found = [tool for tool, name in self.names.items() if name in words[: 1 if sure else None]]
        degraded = "lexical" if self.degraded else None
        return ToolsFound(results=tuple(map(_hit, found)), degraded=degraded, model="a model", took_ms=1.0)


def _hit(tool: str) -> ToolHit:
    return ToolHit(id=tool, name=tool, description="", score=0.9, cosine=0.5, tool_type=ToolType.MCP)


@pytest.fixture
async def services(bus_settings: BusSettings) -> AsyncGenerator[FakeServices]:
    fake = FakeServices()
    async with open_bus(bus_settings, "services", CollectorRegistry()) as opened:
        responder = Responder(opened.client, "test", "0.1.0", opened.metrics)
        await responder.start(route(PUT_TOOLS, fake.put_tools), route(SEARCH_TOOLS, fake.search_tools))
        yield fake
        await responder.drain()


def case(query: str, *wants: str) -> Case:
    return Case(query, "en", "multi", tuple(frozenset({want}) for want in wants), None)


def catalogue(count: int, *requests: Case, description: str = "") -> Cases:
    tools = [ToolDescription(id=f"t{row}", name=f"word{row}", description=description) for row in range(count)]
    return Cases(tuple(tools), requests)


def silent(step: str, done: int, total: int) -> None:
    """Nobody looks."""


async def test_each_request_is_made_without_a_threshold_and_with_the_default_one(
    bus: Bus, services: FakeServices
) -> None:
    cases = catalogue(3, case("word0 word2", "t0", "t2"), case("word1", "t1"), case("none of them"))
    found = await collect_answers(bus.caller, cases, silent)
    assert found.nearest == [["t0", "t2"], ["t1"], []]
    assert found.default == [["t0"], ["t1"], []]
    assert [answer[:1] for answer in found.bm25] == [("t0",), ("t1",), ()]
    assert sorted(services.thresholds, key=str) == [0.0, 0.0, 0.0, None, None, None]
    assert (found.model, found.degraded) == ("a model", 0)


async def test_what_is_measured_is_a_project_of_its_own(bus: Bus, services: FakeServices) -> None:
    await collect_answers(bus.caller, catalogue(1, case("word0", "t0")), silent)
    assert services.projects == {"evaluation"}


async def test_a_large_catalogue_is_imported_in_parts_that_a_message_can_hold(bus: Bus, services: FakeServices) -> None:
    await collect_answers(bus.caller, catalogue(1_200, case("word0", "t0")), silent)
    assert services.batches == [MAX_TOOLS, MAX_TOOLS, 200]
    services.batches.clear()
    await collect_answers(bus.caller, catalogue(300, case("word0", "t0"), description="天" * 8_000), silent)
    assert sum(services.batches) == 300
    assert len(services.batches) > 2


async def test_progress_is_told_of_each_step(bus: Bus, services: FakeServices) -> None:
    last: dict[str, tuple[int, int]] = {}

    def progress(step: str, done: int, total: int) -> None:
        last[step] = (done, total)

    await collect_answers(bus.caller, catalogue(600, case("word0", "t0"), case("word1", "t1")), progress)
    assert last == {"Importing": (600, 600), "Searching": (2, 2), "Searching at the default threshold": (2, 2)}


async def test_answers_by_words_alone_are_counted(bus: Bus, services: FakeServices) -> None:
    services.degraded = True
    found = await collect_answers(bus.caller, catalogue(2, case("word0", "t0"), case("word1", "t1")), silent)
    assert found.degraded == 2


async def test_a_tool_that_the_catalogue_refuses_ends_it(bus: Bus, services: FakeServices) -> None:
    services.refused = "t1"
    with pytest.raises(EvaluationError, match="'t1'"):
        await collect_answers(bus.caller, catalogue(3, case("word0", "t0")), silent)


async def test_tools_that_search_does_not_know_end_it(bus: Bus, services: FakeServices) -> None:
    services.indexed = False
    with pytest.raises(EvaluationError, match="not everything was indexed"):
        await collect_answers(bus.caller, catalogue(3, case("word0", "t0")), silent)


async def test_a_search_that_is_refused_ends_it(bus: Bus, services: FakeServices) -> None:
    services.down = True
    with pytest.raises(RequestError) as refused:
        await collect_answers(bus.caller, catalogue(3, *(case("word0", "t0") for _ in range(20))), silent)
    assert refused.value.code is ErrorCode.VECTOR_STORE_UNAVAILABLE
