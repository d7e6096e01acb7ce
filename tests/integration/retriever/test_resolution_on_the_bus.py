"""Spoken commands over the bus: homes as they are now, sessions, and sentences that are no commands."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.commands import PUT_COMMANDS, PutCommands
from skillbus.contracts.indexer.devices import PUT_DEVICES, REMOVE_DEVICES, PutDevices, RemoveDevices
from skillbus.contracts.resources import DIALOGUES
from skillbus.contracts.retriever.command_resolution import (
    PARSE_QUERY,
    RESOLVE_COMMAND,
    CommandResolved,
    ParseQuery,
    RecallReason,
    ResolutionStatus,
    ResolveCommand,
    ResolvedQuery,
)
from skillbus.embedder.domain.model import ModelSpec
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.standalone.nats_server import open_nats_server
from skillbus.vectors import open_vector_store

from ...conftest import NATS_URL
from ...models import OnlyModel, embedder_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

_MEANINGS = (("打开", "on"), ("关闭", "off"), ("温度", "temperature"), ("亮度", "brightness"))


_OTHERS = 64


class HouseModel:
    """A dense model of four meanings. Texts without any are far from each other."""

    spec = ModelSpec("test", "house", "1", "none", len(_MEANINGS) + _OTHERS, 2048, 4096, False)

    def load(self) -> None:
        return

    def embed(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        meanings = np.array([[any(w in text.lower() for w in words) for words in _MEANINGS] for text in texts])
        others = np.array([np.random.default_rng(list(text.encode())).normal(0, 0.01, _OTHERS) for text in texts])
        rows = np.concatenate([meanings, others], axis=1)
        unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit


@dataclass(frozen=True, slots=True)
class House:
    """The services with a home."""

    bus: Bus

    async def put(self, home: str, *devices: tuple[str, str, str, str, str], project: str = "default") -> None:
        """Put devices: id, name, room, type, capability."""
        values = tuple[JsonValue, ...](
            {"home": home, "id": key, "name": name, "room": room, "type": kind, "capabilities": [can] if can else []}
            for key, name, room, kind, can in devices
        )
        put = await self.bus.caller.call(PUT_DEVICES, PutDevices(project=project, devices=values))
        assert not [each.error for each in put.results if each.error]

    async def resolve_all(self, text: str, home: str = "green", **fields: object) -> CommandResolved:
        request = ResolveCommand.model_validate({"text": text, "home": home, **fields})
        return await self.bus.caller.call(RESOLVE_COMMAND, request)

    async def resolve(self, text: str, home: str = "green", **fields: object) -> ResolvedQuery:
        (result,) = (await self.resolve_all(text, home, **fields)).results
        return result

    async def find(self, text: str, home: str = "green", **fields: object) -> list[str]:
        return [device.id for device in (await self.resolve(text, home, **fields)).devices]


_COMMANDS: tuple[JsonValue, ...] = (
    {"id": "switch.on", "capability": {"id": "switch"}, "command": {"id": "on"}, "description": "打开设备"},
    {"id": "switch.off", "capability": {"id": "switch"}, "command": {"id": "off"}, "description": "关闭设备"},
    {"id": "meter.read", "capability": {"id": "meter"}, "command": {"id": "read"}, "description": "读取温度"},
    {
        "id": "level.set",
        "capability": {"id": "level"},
        "command": {"id": "set"},
        "description": "设置亮度",
        "arguments": [{"name": "percent", "source": "brightness", "minimum": 1, "maximum": 100, "required": True}],
    },
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House]:
    if NATS_URL is not None:
        pytest.skip("the server of SKILLBUS_TEST_NATS_URL is emptied for each test")
    folder = tmp_path_factory.mktemp("house")
    async with open_nats_server(folder / "nats") as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with (
            open_bus(settings, "test", CollectorRegistry()) as bus,
            open_vector_store(None, folder / "v") as store,
        ):
            await provision(bus.jetstream)
            async with (
                open_embedder(bus, embedder_in(folder), OnlyModel(HouseModel())),
                open_indexer(bus, IndexerSettings(data=folder / "data", reconcile_every_s=3600), store),
                open_retriever(bus, RetrieverSettings(), store),
            ):
                house = House(bus)
                await bus.caller.call(PUT_COMMANDS, PutCommands(commands=_COMMANDS))
                await house.put(
                    "green",
                    ("fan", "老伙计", "客厅", "fan", "switch"),
                    ("bed", "床头灯", "卧室", "light", "switch"),
                    ("main", "客厅主灯", "客厅", "light", "switch"),
                    ("probe", "温度计", "卧室", "sensor", "meter"),
                    ("vase", "花瓶", "书房", "decoration", ""),
                )
                yield house


async def test_a_sentence_becomes_a_device_and_its_command(house: House) -> None:
    reply = await house.resolve_all("打开老伙计")
    (result,) = reply.results
    (device,) = result.devices
    assert (result.status, device.id, device.reasons) == (ResolutionStatus.RESOLVED, "fan", (RecallReason.NAME_HIT,))
    assert (device.command.id, device.command.capability) == ("switch.on", "switch")
    assert device.command.score > 0.5
    assert (reply.parsed_by, reply.model) == ("rules", None)
    assert [stage.name for stage in reply.stages] == ["home", "parse", "recall", "commands"]


async def test_rooms_are_left_out_and_devices_without_a_fitting_command_are_dropped(house: House) -> None:
    assert await house.find("打开除卧室以外的灯") == ["main"]
    result = await house.resolve("打开卧室的设备")
    assert [device.id for device in result.devices] == ["bed"]
    assert [dropped.id for dropped in result.dropped] == ["probe"]


async def test_a_session_of_any_characters_knows_what_it_mentioned_and_others_do_not(house: House) -> None:
    session = "kitchen.*.> \u4e2d\u6587/" + "x" * 100
    await house.find("打开床头灯", session=session)
    assert await house.find("关闭它", session=session) == ["bed"]
    for fields in ({"session": "kitchen"}, {}, {"session": session, "last_mentioned": []}):
        result = await house.resolve("关闭它", **fields)
        assert (result.status, result.devices) == (ResolutionStatus.UNRESOLVED, ())
        assert result.question
    assert await house.find("关闭它", last_mentioned=["main"]) == ["main"]
    info = await house.bus.jetstream.stream_info(DIALOGUES.stream)
    assert info.config.max_age == DIALOGUES.ttl_s == 600


async def test_a_change_of_the_home_counts_for_the_next_sentence(house: House) -> None:
    await house.put("red", ("a", "台灯", "书房", "light", "switch"))
    assert await house.find("打开台灯", "red") == ["a"]
    await house.put("red", ("b", "台灯", "卧室", "light", "switch"))
    assert (await house.resolve("打开台灯", "red")).status is ResolutionStatus.AMBIGUOUS
    await house.bus.caller.call(REMOVE_DEVICES, RemoveDevices(home="red", ids=("a",)))
    assert await house.find("打开台灯", "red") == ["b"]


async def _refuse(house: House, home: str, project: str = "default") -> str:
    with pytest.raises(RequestError) as raised:
        await house.resolve_all("打开台灯", home, project=project)
    assert raised.value.code is ErrorCode.NOT_FOUND
    return raised.value.message.replace(home, "").replace(project, "")


async def test_a_home_that_vanished_and_one_of_another_project_are_not_found(house: House) -> None:
    await house.put("blue", ("a", "台灯", "书房", "light", "switch"))
    assert await house.find("打开台灯", "blue") == ["a"]
    never = await _refuse(house, "never")
    assert await _refuse(house, "blue", "other") == never
    await house.bus.caller.call(REMOVE_DEVICES, RemoveDevices(home="blue"))
    assert await _refuse(house, "blue") == never


@pytest.mark.parametrize("text", ["", "   ", "灯" * 10_000, "打开\0灯"])
async def test_a_sentence_that_is_none_is_refused(house: House, text: str) -> None:
    with pytest.raises(RequestError) as raised:
        await house.bus.caller.call(RESOLVE_COMMAND, ResolveCommand.model_construct(text=text, home="green"))
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "text",
    [
        "😀🔥",
        "DROP TABLE devices; --",
        "for x in range(10): print(x)",
        "今天天气怎么样",
        "the quick brown fox",
        "*.>",
        "\u202e\u200b",
        "打开" * 400,
    ],
)
async def test_other_sentences_reach_no_device(house: House, text: str) -> None:
    for result in (await house.resolve_all(text)).results:
        assert (result.devices, result.candidates) == ((), ())


async def test_a_sentence_is_parsed_with_and_without_a_home(house: House) -> None:
    async def parse(text: str, **fields: object) -> str | None:
        request = ParseQuery.model_validate({"text": text, **fields})
        (query,) = (await house.bus.caller.call(PARSE_QUERY, request)).queries
        return query.name_hint

    assert await parse("打开老伙计", home="green") == "老伙计"
    assert await parse("打开老伙计") == "老伙计"


async def test_without_a_chat_model_the_grammar_reads_unless_a_model_is_wanted(house: House) -> None:
    reply = await house.resolve_all("外面黑漆漆的，打开老伙计")
    assert (reply.parsed_by, reply.model_problem) == ("rules", None)
    request = ParseQuery(text="打开老伙计", home="green", parser="model")
    with pytest.raises(RequestError, match="register a provider") as refused:
        await house.bus.caller.call(PARSE_QUERY, request)
    assert refused.value.code is ErrorCode.MODEL_UNAVAILABLE
