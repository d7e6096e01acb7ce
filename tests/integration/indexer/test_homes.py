"""Devices of homes and the command library: put, listed, loaded, indexed, compared and removed."""

import asyncio
from functools import partial

import pytest
from pydantic import JsonValue

from skillbus.common.bus.connection import Bus
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.commands import (
    LIST_COMMANDS,
    PUT_COMMANDS,
    REMOVE_COMMANDS,
    CommandsPut,
    ListCommands,
    PutCommands,
    RemoveCommands,
)
from skillbus.contracts.indexer.devices import (
    LIST_DEVICES,
    LIST_HOMES,
    LOAD_HOME,
    PUT_DEVICES,
    REMOVE_DEVICES,
    DevicesPut,
    HomeLoaded,
    ListDevices,
    ListHomes,
    LoadHome,
    PutDevices,
    PutOutcome,
    RemoveDevices,
)
from skillbus.contracts.indexer.index_switch import LIST_INDEXES
from skillbus.contracts.indexer.skills import GET_STATUS
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditIndex, IndexAudited
from skillbus.contracts.message import Empty
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.vectors import VectorStore, point_id
from skillbus.vectors.datasets import COMMANDS, DEVICES, Dataset

from .conftest import Running
from .fake_embedder import FakeEmbedder

CREATED, UPDATED, UNCHANGED, REJECTED = PutOutcome
HOME = "小明的家 .*> /100%"
QUOTED_HOME = HOME.replace("%", "%25").replace("/", "%2F")


def lamp(device_id: str = "lamp-1", name: str = "台灯", **fields: JsonValue) -> dict[str, JsonValue]:
    return {"home": HOME, "id": device_id, "name": name, "room": "书房", "type": "light", **fields}


def switch_on(description: JsonValue = "打开设备", **fields: JsonValue) -> dict[str, JsonValue]:
    return {
        "id": "switch.on",
        "capability": {"id": "switch"},
        "command": {"id": "on"},
        "description": description,
        **fields,
    }


async def put(bus: Bus, *devices: JsonValue, home: str | None = None, project: str = "default") -> DevicesPut:
    return await bus.caller.call(PUT_DEVICES, PutDevices(project=project, devices=devices, home=home))


async def put_commands(bus: Bus, *commands: JsonValue) -> CommandsPut:
    return await bus.caller.call(PUT_COMMANDS, PutCommands(commands=commands))


async def load(bus: Bus, home: str = HOME, known: int | None = None, after: str | None = None) -> HomeLoaded:
    return await bus.caller.call(LOAD_HOME, LoadHome(home=home, known=known, after=after))


def outcomes(reply: DevicesPut | CommandsPut) -> list[PutOutcome]:
    return [result.outcome for result in reply.results]


async def points(store: VectorStore, dataset: Dataset) -> dict[str, dict[str, JsonValue]]:
    """Payloads by id of the point."""
    collection = await store.resolve_alias(dataset.alias)
    records, _ = await store.scroll(str(collection), limit=1000)
    return {str(record.id): record.payload or {} for record in records}


async def audit(bus: Bus, *, fix: bool = False) -> IndexAudited:
    return await bus.caller.call(AUDIT_INDEX, AuditIndex(fix=fix))


@pytest.mark.spec("context-retrieval.md § 设备元数据 / 命令库 (CommandSpec, spec.jsonl)")
async def test_devices_of_two_homes_with_one_id_are_two_devices(running: Running) -> None:
    bus = running.bus
    other = lamp(name="Desk lamp", home="Other/lamp", aliases=["light"], capabilities=["switch"])
    reply = await put(bus, lamp(), other, {"id": "lamp-1", "name": "Floor lamp", "type": "LIGHT"}, home="Third")
    assert (outcomes(reply), reply.indexed) == ([CREATED] * 3, True)
    assert [result.home for result in reply.results] == [HOME, "Other/lamp", "Third"]
    listed = await bus.caller.call(LIST_DEVICES, ListDevices())
    assert [(device.home, device.name, device.type) for device in listed.devices] == [
        ("Other/lamp", "Desk lamp", "light"),
        ("Third", "Floor lamp", "light"),
        (HOME, "台灯", "light"),
    ]
    homes = await bus.caller.call(LIST_HOMES, ListHomes())
    assert [(home.home, home.devices, home.rooms) for home in homes.homes] == [
        ("Other/lamp", 1, 1),
        ("Third", 1, 0),
        (HOME, 1, 1),
    ]
    payloads = (await points(running.store, DEVICES)).values()
    assert {(p["home"], p["device_id"], p["name"], p["type"]) for p in payloads} == {
        (device.home, device.id, device.name, device.type) for device in listed.devices
    }
    assert (await audit(bus)).differences == ()
    removed = await bus.caller.call(REMOVE_DEVICES, RemoveDevices(home=HOME, ids=("lamp-1", "lamp-2")))
    assert removed.ids == ("lamp-1",)
    assert (await bus.caller.call(LIST_DEVICES, ListDevices())).total == len(await points(running.store, DEVICES)) == 2


async def test_an_unchanged_device_is_neither_written_nor_embedded_again(
    running: Running, embedder: FakeEmbedder
) -> None:
    devices = [lamp(f"lamp-{number}") for number in range(40)]
    await put(running.bus, *devices)
    revision, embedded = (await load(running.bus)).revision, embedder.embedded["aaaa"]
    assert outcomes(await put(running.bus, *devices)) == [UNCHANGED] * 40
    assert ((await load(running.bus)).revision, embedder.embedded["aaaa"]) == (revision, embedded)
    devices[7] = lamp("lamp-7", name="Night light")
    reply = await put(running.bus, *devices)
    assert outcomes(reply) == [UPDATED if number == 7 else UNCHANGED for number in range(40)]
    assert embedder.embedded["aaaa"] == embedded + 1


async def test_a_bad_line_is_refused_by_itself_and_the_last_of_two_with_one_id_is_taken(running: Running) -> None:
    reply = await put(running.bus, "lamp", lamp("twice", name="First"), lamp("good"), lamp("twice", name="Second"))
    assert outcomes(reply) == [REJECTED, REJECTED, CREATED, CREATED]
    assert reply.results[1].error == "is described again as number 4, which is taken instead"
    assert {device.name for device in (await load(running.bus)).devices} == {"台灯", "Second"}


async def test_a_home_is_loaded_once_until_a_device_of_it_changes_or_goes(running: Running) -> None:
    bus = running.bus
    await put(bus, lamp("a"), lamp("b"), lamp("c", home="Other"))
    first = await load(bus)
    assert [device.id for device in first.devices] == ["a", "b"]
    assert await load(bus, known=first.revision) == HomeLoaded(revision=first.revision, unchanged=True)
    await put(bus, lamp("d", home="Other"))
    assert (await load(bus, known=first.revision)).unchanged
    await put(bus, lamp("b", name="Night light"))
    second = await load(bus, known=first.revision)
    assert [device.name for device in second.devices] == ["台灯", "Night light"]
    await bus.caller.call(REMOVE_DEVICES, RemoveDevices(home=HOME, ids=("a",)))
    third = await load(bus, known=second.revision)
    assert [device.id for device in third.devices] == ["b"]
    assert len({first.revision, second.revision, third.revision}) == 3
    assert (await bus.caller.call(REMOVE_DEVICES, RemoveDevices(home=HOME))).ids == ("b",)
    for home in (HOME, "Nobody's"):
        with pytest.raises(RequestError, match="lists its homes") as caught:
            await load(bus, home, known=third.revision)
        assert caught.value.code is ErrorCode.NOT_FOUND


async def test_a_large_home_is_loaded_page_by_page(running: Running, embedder: FakeEmbedder) -> None:
    embedder.default = None  # no vectors to compute
    every = [lamp(f"lamp-{number:04}", aliases=["台" * 100] * 10) for number in range(1_010)]
    for at in range(0, len(every), 101):
        await put(running.bus, *every[at : at + 101])
    ids, after, revisions = [], None, set()
    while True:
        page = await load(running.bus, after=after)
        revisions.add(page.revision)
        assert 0 < len(page.devices) <= 500
        ids += [device.id for device in page.devices]
        if (after := page.next) is None:
            break
    assert ids == [device["id"] for device in every]
    assert len(revisions) == 1
    listed = await running.bus.caller.call(LIST_DEVICES, ListDevices(text="LAMP-100", limit=3))
    assert ([device.id for device in listed.devices], listed.total) == (["lamp-1000", "lamp-1001", "lamp-1002"], 10)
    rest = await running.bus.caller.call(LIST_DEVICES, ListDevices(text="LAMP-100", after=listed.next))
    assert [device.id for device in rest.devices] == [f"lamp-{number}" for number in range(1003, 1010)]
    for nothing in (ListDevices(room="Attic"), ListDevices(type="fan"), ListDevices(home="Other")):
        assert (await running.bus.caller.call(LIST_DEVICES, nothing)).total == 0


@pytest.mark.spec("context-retrieval.md § 设备元数据 / 命令库 (CommandSpec, spec.jsonl)")
async def test_commands_are_indexed_with_all_that_a_search_returns(running: Running) -> None:
    level: JsonValue = {"name": "level", "source": "brightness", "minimum": 0, "maximum": 100}
    texts: dict[str, JsonValue] = {"zh": "设置亮度", "en": "Set the brightness"}
    dim = switch_on(texts, id="switchLevel.set", capability={"id": "switchLevel"}, arguments=[level])
    reply = await put_commands(running.bus, switch_on(), dim)
    assert (outcomes(reply), reply.indexed) == ([CREATED] * 2, True)
    point = (await points(running.store, COMMANDS))[point_id("default", "switchLevel.set")]
    assert (point["capability"], point["command"], point["descriptions"]) == ("switchLevel", "on", texts)
    assert '"source":"brightness"' in str(point["arguments"])
    listed = await running.bus.caller.call(LIST_COMMANDS, ListCommands(text="BRIGHT"))
    assert [command.id for command in listed.commands] == ["switchLevel.set"]
    page = await running.bus.caller.call(LIST_COMMANDS, ListCommands(limit=1))
    assert (page.commands[0].description, page.total, page.next) == ({"zh": "打开设备"}, 2, "switch.on")
    rest = await running.bus.caller.call(LIST_COMMANDS, ListCommands(after=page.next))
    assert [command.id for command in rest.commands] == ["switchLevel.set"]
    removed = await running.bus.caller.call(REMOVE_COMMANDS, RemoveCommands(ids=("switch.on", "gone")))
    assert removed.ids == ("switch.on",)
    assert list(await points(running.store, COMMANDS)) == [point_id("default", "switchLevel.set")]


async def test_of_two_requests_at_once_one_decides_record_and_index(running: Running) -> None:
    texts = [f"Turn it on, says writer {number}." for number in range(8)]
    async with asyncio.TaskGroup() as tasks:
        for text in texts:
            tasks.create_task(put_commands(running.bus, switch_on(text)))
    [command] = (await running.bus.caller.call(LIST_COMMANDS, ListCommands())).commands
    [payload] = (await points(running.store, COMMANDS)).values()
    assert payload["descriptions"] == command.description
    assert command.description["en"] in texts


async def test_devices_put_without_an_embedder_are_indexed_when_it_is_back(
    running: Running, embedder: FakeEmbedder
) -> None:
    embedder.down = True
    reply = await put(running.bus, lamp())
    assert (outcomes(reply), reply.indexed) == ([CREATED], False)
    embedder.down = False
    assert (await put(running.bus, lamp())).indexed
    assert len(await points(running.store, DEVICES)) == 1


async def test_an_audit_finds_and_repairs_what_the_index_lacks_and_has_too_much(running: Running) -> None:
    bus, store = running.bus, running.store
    await put(bus, lamp("a"), lamp("b"))
    await put_commands(bus, switch_on())
    await store.delete(str(await store.resolve_alias(DEVICES.alias)), [point_id("default", f"{QUOTED_HOME}/a")])
    found = await audit(bus, fix=True)
    [difference] = found.differences
    assert (difference.kind, difference.fixed) == ("device_not_indexed", 1)
    assert difference.ids == (f"default/{QUOTED_HOME}/a",)
    assert (found.devices, found.devices_indexed, found.commands, found.commands_indexed) == (2, 1, 1, 1)
    assert (await audit(bus)).differences == ()
    status = await bus.caller.call(GET_STATUS, Empty())
    assert (status.devices, status.commands) == (2, 1)


async def test_what_a_crash_left_unindexed_is_indexed_after_the_start(
    bus: Bus, store: VectorStore, settings: IndexerSettings, embedder: FakeEmbedder
) -> None:
    async with open_indexer(bus, settings, store):
        await put(bus, lamp("a"))
        await put_commands(bus, switch_on())
        embedder.down = True
        assert not (await put(bus, lamp("b"))).indexed
    embedder.down = False
    async with open_indexer(bus, settings, store):
        await eventually(lambda: points(store, DEVICES), lambda found: len(found) == 2)


async def test_without_devices_and_commands_there_are_no_collections(running: Running) -> None:
    assert (await audit(running.bus)).devices == 0
    states = (await running.bus.caller.call(LIST_INDEXES, Empty())).indexes
    assert {state.alias: state.live is None for state in states if state.alias in {"devices", "commands"}} == {
        "devices": True,
        "commands": True,
    }


async def test_devices_and_commands_follow_the_default_model(running: Running, embedder: FakeEmbedder) -> None:
    await put(running.bus, lamp())
    await put_commands(running.bus, switch_on())
    await embedder.make_default(running.bus, "bbbb")
    for dataset in (DEVICES, COMMANDS):
        name = dataset.name_collection("bbbb")
        await eventually(partial(running.store.resolve_alias, dataset.alias), lambda live, name=name: live == name)
