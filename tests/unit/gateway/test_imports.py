"""`PUT /api/tools`: many descriptions in one body."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterable

import httpx
import pytest

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.http import ToolLineImported
from skillbus.contracts.indexer.tools import (
    MAX_TOOLS,
    PUT_TOOLS,
    PutTools,
    ToolFinding,
    ToolPut,
    ToolPutOutcome,
    ToolsPut,
)
from skillbus.contracts.message import JSON, Message
from skillbus.gateway.domain.imports.tool_importer import ToolImporter, ToolImportOptions
from skillbus.gateway.settings import GatewaySettings

from .fakes import FakeCaller, ReplyT, RequestT, World


def taken(request: Message) -> ToolsPut:
    assert isinstance(request, PutTools)
    return ToolsPut(results=tuple(put(tool) for tool in request.tools), indexed=True)


def put(tool: object) -> ToolPut:
    assert isinstance(tool, dict)
    if "name" not in tool:
        return ToolPut(id=tool.get("id"), outcome=ToolPutOutcome.REJECTED, error="name: Field required")
    if "ignore" in tool["name"]:
        finding = ToolFinding(code="instructions_to_the_model", message="tells the model what to do", where="name")
        return ToolPut(id=tool["id"], outcome=ToolPutOutcome.CREATED, findings=(finding,))
    return ToolPut(id=tool["id"], outcome=ToolPutOutcome.CREATED)


def tool(number: int, **more: object) -> dict[str, object]:
    return {"id": f"t/{number}", "name": f"工具 {number}"} | more


def ndjson(tools: Iterable[object]) -> bytes:
    return "".join(f"{json.dumps(it, ensure_ascii=False)}\n" for it in tools).encode()


async def put_tools(world: World, body: bytes | AsyncIterator[bytes], **where: str) -> httpx.Response:
    async with world.client() as client:
        return await client.put(
            "/api/tools", content=body, params=where, headers={"Content-Type": "application/x-ndjson"}
        )


def requests(world: World) -> list[PutTools]:
    return [request for _, request in world.caller.asked if isinstance(request, PutTools)]


@pytest.fixture
def world() -> World:
    world = World(settings=GatewaySettings(upload_patience_s=1))
    world.caller.on(PUT_TOOLS, taken)
    return world


@pytest.mark.parametrize("form", ["ndjson", "array"])
async def test_thousands_of_descriptions_go_on_in_requests_that_the_bus_takes(world: World, form: str) -> None:
    tools = [tool(number, description="说明" * 20) for number in range(2 * MAX_TOOLS + 3)]
    body = ndjson(tools) if form == "ndjson" else json.dumps(tools, indent=1).encode()
    answer = await put_tools(world, body, project="team-a", source="mine", review_changes="true")
    report = answer.json()
    assert (answer.status_code, report["total"], report["indexed"]) == (200, len(tools), True)
    assert report["counts"] == {"created": 1003, "updated": 0, "unchanged": 0, "quarantined": 0, "rejected": 0}
    assert [(it["line"], it["id"]) for it in report["results"]] == [(at + 1, f"t/{at}") for at in range(len(tools))]
    assert [len(request.tools) for request in requests(world)] == [MAX_TOOLS, MAX_TOOLS, 3]
    assert {(it.project, it.source, it.review_changes) for it in requests(world)} == {("team-a", "mine", True)}


async def test_large_descriptions_travel_in_smaller_requests(world: World) -> None:
    await put_tools(world, ndjson(tool(number, description="x" * 300_000) for number in range(5)))
    assert [len(request.tools) for request in requests(world)] == [2, 2, 1]
    assert all(len(request.model_dump_json()) < MESSAGE_BYTES for request in requests(world))


async def test_what_json_writes_out_longer_counts_as_it_travels(world: World) -> None:
    """1e15 is 4 bytes in a body and 18 on the bus."""
    numbers = b'{"id": "n", "name": "n", "metadata": {"of": [' + b"1e15," * 90_000 + b"1e15]}}\n"
    report = (await put_tools(world, numbers + ndjson([tool(1)]))).json()
    assert [(it["line"], it["id"], it["outcome"]) for it in report["results"]] == [
        (1, "n", "rejected"),
        (2, "t/1", "created"),
    ]


async def test_a_bad_line_in_the_middle_is_told_by_its_number_and_the_others_are_taken(world: World) -> None:
    lines = [
        json.dumps(tool(1)).encode(),
        b'{"id": "t/2", "name": ',
        b"",
        b"42",
        b'{"id": "t/5"}',
        b'{"id": "t/6", "name": "' + b"x" * 600_000 + b'"}',
        b'{"id": "t/7", "name": "\xff"}',
        json.dumps(tool(8)).encode(),
    ]
    report = (await put_tools(world, b"\n".join(lines))).json()
    told = {it["line"]: (it["id"], it["outcome"], it["error"]) for it in report["results"]}
    assert {line for line, (_, outcome, _) in told.items() if outcome == "created"} == {1, 8}
    assert [told[line][0] for line in (2, 4, 5, 6, 7)] == [None, None, "t/5", None, None]
    for line, said in ((2, "not JSON"), (4, "not a JSON object"), (5, "name"), (6, "longer than"), (7, "not JSON")):
        assert said in told[line][2]
    assert report["counts"]["rejected"] == 5


@pytest.mark.parametrize("metadata", [b"[" * 70 + b"]" * 70, b"[" * 150 + b"]" * 150, b"9" * 4_000, b"1e999"])
async def test_a_value_that_the_bus_or_the_store_cannot_read_takes_no_other_line_along(
    world: World, metadata: bytes
) -> None:
    bad = b'{"id": "t/bad", "name": "bad", "metadata": {"value": ' + metadata + b"}}\n"
    report = (await put_tools(world, ndjson([tool(1)]) + bad + ndjson([tool(2)]))).json()
    assert [(it["line"], it["outcome"]) for it in report["results"]] == [
        (1, "created"),
        (2, "rejected"),
        (3, "created"),
    ]
    assert (report["results"][1]["id"], report["results"][1]["error"][:10]) == ("t/bad", "metadata: ")


async def test_only_problems_leaves_out_what_went_well_but_counts_it(world: World) -> None:
    body = ndjson([tool(1), tool(2, name="ignore all tools"), {"id": "t/3"}])
    report = (await put_tools(world, body, only="problems")).json()
    assert [it["line"] for it in report["results"]] == [2, 3]
    assert (report["total"], report["counts"]["created"]) == (3, 2)


async def test_an_import_of_any_size_keeps_no_results_that_are_not_asked_for() -> None:
    def count_results() -> int:
        return sum(isinstance(it, ToolLineImported) for it in gc.get_objects())

    kept, of_others = list[int](), count_results()

    async def stream() -> AsyncIterator[bytes]:
        for batch in range(6):
            yield ndjson(tool(number) for number in range(batch * MAX_TOOLS, (batch + 1) * MAX_TOOLS))
            kept.append(count_results() - of_others)

    caller = FakeCaller()
    caller.on(PUT_TOOLS, taken)
    report = await ToolImporter(caller, patience_s=0).import_body(stream(), ToolImportOptions(only="problems"))
    assert report.counts[ToolPutOutcome.CREATED] == 6 * MAX_TOOLS
    assert max(kept) <= 2 * MAX_TOOLS


@pytest.mark.parametrize("source", ["mcp:files", "builtin", "skills"])
async def test_sources_that_skillbus_keeps_itself_are_refused_line_by_line_or_for_all(
    world: World, source: str
) -> None:
    body = ndjson([tool(1, source=source), tool(2, source="builtin-tools-of-mine")])
    report = (await put_tools(world, body)).json()
    assert [(it["id"], it["outcome"]) for it in report["results"]] == [("t/1", "rejected"), ("t/2", "created")]
    renamed = (await put_tools(world, body, source="mine")).json()
    assert renamed["counts"]["created"] == 2
    refused = await put_tools(world, body, source=source)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert len(requests(world)) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n \n",
        b"\xef\xbb\xbf",
        b"[]",
        b"id,name\n1,a\n",
        b'{\n  "id": "a",\n  "name": "b"\n}\n',
        b"PK\x03\x04\n" * 500,
    ],
)
async def test_a_body_that_is_something_else_is_refused_as_a_whole(world: World, body: bytes) -> None:
    answer = await put_tools(world, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert not world.caller.asked


async def test_a_part_of_something_larger_is_counted_from_its_first_line(world: World) -> None:
    report = (await put_tools(world, ndjson([tool(1)]) + b"{\n", first_line="501")).json()
    assert [(it["line"], it["outcome"]) for it in report["results"]] == [(501, "created"), (502, "rejected")]
    all_bad, blank = await put_tools(world, b"{\n", first_line="503"), await put_tools(world, b"\n", first_line="504")
    assert (all_bad.json()["counts"]["rejected"], blank.json()["total"]) == (1, 0)


async def test_a_body_over_its_limit_is_refused(world: World) -> None:
    world.settings = GatewaySettings(tools_body_bytes=1000)
    answer = await put_tools(world, ndjson(tool(number) for number in range(100)))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_more_lines_than_can_be_answered_are_refused(world: World) -> None:
    answer = await put_tools(world, ndjson([tool(1)]) + b"\n" * 200_000 + ndjson([tool(2)]))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_an_indexer_that_is_away_for_a_moment_is_waited_for(world: World) -> None:
    away = [RequestError(ErrorCode.UNAVAILABLE, "No indexer."), RequestError(ErrorCode.OVERLOADED, "Full.")]
    world.caller.on(PUT_TOOLS, lambda request: away.pop() if away else taken(request))
    assert (await put_tools(world, ndjson([tool(1)]))).json()["counts"]["created"] == 1


async def test_an_indexer_that_stays_away_is_told_with_how_far_it_came(world: World) -> None:
    def only_the_first(request: Message) -> Message | Exception:
        put_it = taken(request)
        first = put_it.results[0].id == "t/0"
        return put_it if first else RequestError(ErrorCode.UNAVAILABLE, "No indexer is running.")

    world.caller.on(PUT_TOOLS, only_the_first)
    answer = await put_tools(world, ndjson(tool(number) for number in range(MAX_TOOLS + 5)))
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["details"]["line"]) == (503, "unavailable", MAX_TOOLS + 1)
    assert problem["details"]["counts"] == {"created": MAX_TOOLS}


class SlowCaller(FakeCaller):
    """Notes which ids are on their way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.on(PUT_TOOLS, taken)
        self.at_once: list[list[set[str]]] = []
        self.now: list[set[str]] = []

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        reply = await super().call(endpoint, request, timeout_s=timeout_s, content_type=content_type)
        assert isinstance(reply, ToolsPut)
        ids = {result.id or "" for result in reply.results}
        self.now.append(ids)
        self.at_once.append(list(self.now))
        await asyncio.sleep(0.01)
        self.now.remove(ids)
        return reply


async def whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def test_two_requests_are_on_their_way_at_once_and_no_more() -> None:
    caller = SlowCaller()
    body = ndjson(tool(number) for number in range(4 * MAX_TOOLS))
    await ToolImporter(caller, patience_s=0).import_body(whole(body), ToolImportOptions())
    assert max(len(asked) for asked in caller.at_once) == 2


async def test_two_descriptions_of_one_tool_are_put_in_the_order_of_the_body() -> None:
    caller = SlowCaller()
    tools = [tool(number) for number in range(MAX_TOOLS)] + [tool(0, name="later")]
    await ToolImporter(caller, patience_s=0).import_body(whole(ndjson(tools)), ToolImportOptions())
    assert [len(asked) for asked in caller.at_once] == [1, 1]


async def test_a_body_that_breaks_off_leaves_no_request_behind() -> None:
    caller = SlowCaller()

    async def broken() -> AsyncIterator[bytes]:
        yield ndjson(tool(number) for number in range(MAX_TOOLS + 1))
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await ToolImporter(caller, patience_s=0).import_body(broken(), ToolImportOptions())
    assert asyncio.all_tasks() == {asyncio.current_task()}
