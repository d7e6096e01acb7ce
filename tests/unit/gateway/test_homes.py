"""Devices, commands and spoken commands over HTTP. What every import has in common is in `test_imports.py`."""

import json
from collections.abc import Iterable

import httpx
import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.commands import (
    LIST_COMMANDS,
    MAX_COMMANDS,
    PUT_COMMANDS,
    REMOVE_COMMANDS,
    CommandPut,
    CommandsListed,
    CommandsPut,
    CommandsRemoved,
    ListCommands,
    PutCommands,
    RemoveCommands,
)
from skillbus.contracts.indexer.devices import (
    LIST_DEVICES,
    LIST_HOMES,
    MAX_DEVICES,
    PUT_DEVICES,
    REMOVE_DEVICES,
    Device,
    DevicePut,
    DevicesListed,
    DevicesPut,
    DevicesRemoved,
    HomesListed,
    HomeSummary,
    ListDevices,
    PutDevices,
    PutOutcome,
    RemoveDevices,
)
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    RESOLVE_COMMAND,
    SEARCH_COMMANDS,
    CommandHit,
    CommandResolved,
    CommandsFound,
    ParseQuery,
    QueryParsed,
    ResolveCommand,
    SearchCommands,
)
from skillbus.contracts.retriever.query_ir import QueryIR
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, World

LAMP = Device(home="villa", id="light.desk", name="台灯", room="书房", type="light")


def put_devices(request: Message) -> DevicesPut:
    assert isinstance(request, PutDevices)
    results = []
    for value in request.devices:
        assert isinstance(value, dict)
        error = None if "type" in value else "type: Field required"
        outcome = PutOutcome.REJECTED if error else PutOutcome.CREATED
        home = value.get("home") or request.home
        results.append(DevicePut(home=str(home), id=str(value["id"]), outcome=outcome, error=error))
    return DevicesPut(results=tuple(results), indexed=True)


def put_commands(request: Message) -> CommandsPut:
    assert isinstance(request, PutCommands)
    ids = [value["id"] for value in request.commands if isinstance(value, dict)]
    return CommandsPut(
        results=tuple(CommandPut(id=str(one), outcome=PutOutcome.UNCHANGED) for one in ids), indexed=False
    )


def list_devices(request: Message) -> DevicesListed:
    """A project with the one home `villa`."""
    assert isinstance(request, ListDevices)
    fits = request.home in {None, LAMP.home} and request.room in {None, LAMP.room}
    return DevicesListed(devices=(LAMP,) if fits else (), total=int(fits))


def ndjson(rows: Iterable[object]) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def asked(world: World) -> list[Message]:
    return [request for _, request in world.caller.asked]


async def send(world: World, method: str, path: str, **parts: object) -> httpx.Response:
    async with world.client() as client:
        return await client.request(method, path, **parts)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    world = World(GatewaySettings(upload_patience_s=0))
    world.caller.on(PUT_DEVICES, put_devices)
    world.caller.on(PUT_COMMANDS, put_commands)
    world.caller.on(LIST_DEVICES, list_devices)
    return world


async def test_ten_thousand_devices_go_on_in_requests_that_the_bus_takes_with_the_home_of_those_without(
    world: World,
) -> None:
    devices = [{"id": f"d{number}", "name": f"灯 {number}", "type": "light"} for number in range(10_000)]
    del devices[7_000]["type"]
    devices[1]["home"] = "attic"
    answer = await send(
        world,
        "PUT",
        "/api/devices",
        content=ndjson(devices),
        params={"home": "villa", "only": "problems", "project": "p"},
    )
    assert answer.json() == {
        "total": 10_000,
        "counts": {"created": 9_999, "updated": 0, "unchanged": 0, "rejected": 1},
        "indexed": True,
        "results": [
            {"line": 7_001, "home": "villa", "id": "d7000", "outcome": "rejected", "error": "type: Field required"}
        ],
        "unknown_capabilities": [],
    }
    requests = [request for request in asked(world) if isinstance(request, PutDevices)]
    assert [len(request.devices) for request in requests] == [MAX_DEVICES] * (10_000 // MAX_DEVICES)
    assert {(request.home, request.project) for request in requests} == {("villa", "p")}


@pytest.mark.parametrize(("library", "unknown"), [(("switch", "lock"), ["levle"]), ((), [])])
async def test_capabilities_that_no_command_has_are_named_unless_the_library_is_empty(
    world: World, library: tuple[str, ...], unknown: list[str]
) -> None:
    def list_commands(request: Message) -> CommandsListed:
        assert isinstance(request, ListCommands)
        spec = {"command": {"id": "on"}, "description": {"en": "Turn on"}}
        commands = [spec | {"id": f"{name}.on", "capability": {"id": name}} for name in library]
        first = request.after is None  # each page has one command
        return CommandsListed.model_validate(
            {
                "commands": commands[:1] if first else commands[1:],
                "total": len(commands),
                "next": "switch.on" if first and commands else None,
            }
        )

    world.caller.on(LIST_COMMANDS, list_commands)
    lamp = LAMP.model_dump(mode="json")
    lines = [lamp | {"capabilities": ["switch", "levle"]}, lamp | {"id": "2", "capabilities": ["lock", 3]}, lamp]
    answer = (await send(world, "PUT", "/api/devices", content=ndjson(lines))).json()
    assert answer["unknown_capabilities"] == unknown


async def test_a_device_with_an_unknown_field_is_refused_with_its_line_and_the_nearest_field(world: World) -> None:
    lamp = LAMP.model_dump(mode="json")
    lines = [lamp, lamp | {"id": "2", "alias": ["灯"]}, lamp | {"id": "3", "colour": "red"}]
    answer = (await send(world, "PUT", "/api/devices", content=ndjson(lines))).json()
    assert (answer["total"], answer["counts"]["created"], answer["counts"]["rejected"]) == (3, 1, 2)
    first, second = [line for line in answer["results"] if line["outcome"] == "rejected"]
    assert (first["line"], first["error"]) == (2, "alias: There is no such field: do you mean `aliases`?")
    assert second["line"] == 3
    assert second["error"].startswith("colour: There is no such field: the fields are aliases, ")


async def test_a_line_that_is_no_object_is_told_with_the_others_and_names_the_home_that_it_would_have_had(
    world: World,
) -> None:
    lines = ndjson([{"id": "a", "name": "a", "type": "light"}]) + b"{bad\n" + ndjson(["lamp"])
    report = (await send(world, "PUT", "/api/devices", content=lines, params={"home": "villa"})).json()
    assert [(it["line"], it["outcome"], it["home"]) for it in report["results"]] == [
        (1, "created", "villa"),
        (2, "rejected", "villa"),
        (3, "rejected", "villa"),
    ]
    assert "not JSON" in report["results"][1]["error"]


async def test_commands_are_imported_as_one_array_too(world: World) -> None:
    commands = [{"id": f"c{number}"} for number in range(MAX_COMMANDS + 2)]
    report = (await send(world, "PUT", "/api/commands", json=commands)).json()
    assert (report["total"], report["counts"]["unchanged"], report["indexed"]) == (len(commands), len(commands), False)
    assert [(it["line"], it["id"]) for it in report["results"][-2:]] == [(501, "c500"), (502, "c501")]


@pytest.mark.parametrize("path", ["/api/devices", "/api/commands"])
async def test_an_import_may_be_as_large_as_one_of_tools_and_no_larger(world: World, path: str) -> None:
    world.settings = GatewaySettings(tools_body_bytes=2_000, body_bytes=100)
    rows = [{"id": f"d{number}", "name": "x" * 50, "type": "light"} for number in range(40)]
    taken, refused = [await send(world, "PUT", path, content=ndjson(some)) for some in (rows[:10], rows)]
    assert (taken.status_code, taken.json()["total"]) == (200, 10)
    assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")


async def test_a_home_without_devices_is_not_found_and_the_error_says_where_homes_are_listed(world: World) -> None:
    world.caller.on(REMOVE_DEVICES, lambda _: DevicesRemoved(ids=()))
    found = await send(world, "GET", "/api/devices", params={"home": "villa", "room": "厨房"})
    assert (found.status_code, found.json()["total"]) == (200, 0)
    for method in ("GET", "DELETE"):
        answer = await send(world, method, "/api/devices", params={"home": "vila"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "'vila'" in answer.json()["detail"]
        assert "GET /api/homes" in answer.json()["detail"]
    gone = await send(world, "DELETE", "/api/devices", params={"home": "villa", "id": "light.none"})
    assert (gone.status_code, gone.json()) == (200, {"ids": []})


async def test_devices_and_commands_are_removed_by_ids_and_a_home_as_a_whole(world: World) -> None:
    def remove(request: Message) -> DevicesRemoved:
        assert isinstance(request, RemoveDevices)
        return DevicesRemoved(ids=request.ids)

    world.caller.on(REMOVE_DEVICES, remove)
    world.caller.on(REMOVE_COMMANDS, lambda _: CommandsRemoved(ids=("switch.on",)))
    removed = await send(world, "DELETE", "/api/devices?home=villa&id=a&id=b")
    whole = await send(world, "DELETE", "/api/devices?home=villa&project=p")
    command = await send(world, "DELETE", "/api/commands?id=switch.on")
    assert [answer.json() for answer in (removed, whole, command)] == [
        {"ids": ["a", "b"]},
        {"ids": ["light.desk"]},
        {"ids": ["switch.on"]},
    ]
    assert asked(world) == [
        RemoveDevices(home="villa", ids=("a", "b")),
        ListDevices(home="villa", project="p", limit=1_000),
        RemoveDevices(home="villa", project="p", ids=("light.desk",)),
        RemoveCommands(ids=("switch.on",)),
    ]


async def test_a_home_is_removed_page_by_page_so_that_each_reply_fits_a_message(world: World) -> None:
    def list_page(request: Message) -> DevicesListed:
        assert isinstance(request, ListDevices)
        start = int(request.after or 0)
        devices = tuple(LAMP.model_copy(update={"id": f"d{number}"}) for number in range(start, start + 2))
        return DevicesListed(devices=devices, total=6, next=None if start == 4 else str(start + 2))

    def remove(request: Message) -> DevicesRemoved:
        assert isinstance(request, RemoveDevices)
        return DevicesRemoved(ids=request.ids)

    world.caller.on(LIST_DEVICES, list_page)
    world.caller.on(REMOVE_DEVICES, remove)
    removed = await send(world, "DELETE", "/api/devices?home=villa")
    assert removed.json() == {"ids": [f"d{number}" for number in range(6)]}
    assert [len(it.ids) for it in asked(world) if isinstance(it, RemoveDevices)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("path", "field"),
    [("/api/devices", "home"), ("/api/devices?home=villa&ids=light.desk", "ids"), ("/api/commands", "id")],
)
async def test_a_removal_with_a_missing_or_misspelt_parameter_removes_nothing(
    world: World, path: str, field: str
) -> None:
    refused = await send(world, "DELETE", path)
    assert (refused.status_code, refused.json()["details"]["fields"][0]["field"]) == (400, field)
    assert asked(world) == []


async def test_devices_homes_and_commands_are_listed_by_page(world: World) -> None:
    homes = HomesListed(homes=(HomeSummary(home="villa", devices=1, rooms=1),), total=1)
    world.caller.on(LIST_HOMES, lambda _: homes)
    world.caller.on(LIST_COMMANDS, lambda _: CommandsListed(commands=(), total=0))
    devices = await send(world, "GET", "/api/devices", params={"home": "villa", "type": "Light", "limit": 1})
    listed = await send(world, "GET", "/api/homes", params={"project": "p"})
    commands = await send(world, "GET", "/api/commands", params={"capability": "switch", "text": "开"})
    assert devices.json() == {"devices": [LAMP.model_dump(mode="json")], "total": 1, "next": None}
    assert listed.json() == homes.model_dump(mode="json")
    assert commands.json() == {"commands": [], "total": 0, "next": None}
    assert asked(world)[0] == ListDevices(home="villa", type="light", limit=1)
    assert asked(world)[2] == ListCommands(capability="switch", text="开")


async def test_a_sentence_is_parsed_and_resolved_and_commands_are_searched(world: World) -> None:
    parsed = QueryParsed(queries=(QueryIR(action="打开", confidence=1),), parsed_by="rules", took_ms=1)
    resolved = CommandResolved(results=(), parsed_by="rules", took_ms=1)
    hit = CommandHit(id="switch.on", capability="switch", command="on", description={"zh": "开"}, score=1, cosine=1)
    found = CommandsFound(results=(hit,), took_ms=1)
    world.caller.on(PARSE_QUERY, lambda _: parsed)
    world.caller.on(RESOLVE_COMMAND, lambda _: resolved)
    world.caller.on(SEARCH_COMMANDS, lambda _: found)
    sentence = {"text": "打开除卧室以外的灯", "home": "villa", "parser": "rules"}
    resolution = sentence | {"session": "me", "threshold": 0.4, "last_mentioned": ["light.desk"]}
    answers = [
        await send(world, "POST", "/api/context/parse", json=sentence),
        await send(world, "POST", "/api/context/resolve", json=resolution),
        await send(world, "POST", "/api/commands/search", json={"query": "打开"}),
    ]
    assert [answer.json() for answer in answers] == [it.model_dump(mode="json") for it in (parsed, resolved, found)]
    assert asked(world) == [
        ParseQuery.model_validate(sentence),
        ResolveCommand.model_validate(resolution),
        SearchCommands(query="打开"),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "打开灯"}, "home"),
        ({"text": "", "home": "villa"}, "text"),
        ({"text": " \n", "home": "villa"}, "text"),
        ({"text": "灯" * 1_001, "home": "villa"}, "text"),
        ({"text": "打开灯", "home": "villa", "sesion": "me"}, "sesion"),
        ({"text": "打开灯", "home": "villa", "parser": "llm"}, "parser"),
        ({"text": "打开灯", "home": "villa", "threshold": "0.5"}, "threshold"),
    ],
)
async def test_a_wrong_body_is_refused_with_the_name_of_its_field(
    world: World, body: dict[str, object], field: str
) -> None:
    answer = await send(world, "POST", "/api/context/resolve", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert [one["field"] for one in answer.json()["details"]["fields"]] == [field]


async def test_what_the_retriever_refuses_reaches_the_caller(world: World) -> None:
    missing = RequestError(ErrorCode.NOT_FOUND, "There is no home 'vila': `GET /api/homes` lists the homes.")
    world.caller.on(RESOLVE_COMMAND, lambda _: missing)
    answer = await send(world, "POST", "/api/context/resolve", json={"text": "打开灯", "home": "vila"})
    assert (answer.status_code, answer.json()["detail"]) == (404, missing.message)


async def test_a_reader_resolves_and_lists_but_changes_no_device_and_no_command() -> None:
    world = World(key=KEY)
    world.caller.on(LIST_HOMES, lambda _: HomesListed(homes=(), total=0))
    async with world.client(world.add_key(Role.READER, "team")) as client:
        assert (await client.get("/api/homes")).json() == {"homes": [], "total": 0}
        for method, path in (
            ("PUT", "/api/devices"),
            ("DELETE", "/api/devices?home=villa"),
            ("PUT", "/api/commands"),
            ("DELETE", "/api/commands?id=switch.on"),
        ):
            refused = await client.request(method, path)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path
    assert [name for name, _ in world.caller.asked] == ["list_homes"]
