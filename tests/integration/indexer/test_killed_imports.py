"""An indexer that is killed again and again while tools are imported ends with what an undisturbed one has.

Four kills and 1,000 tools unless `SKILLBUS_TEST_KILLS` and `SKILLBUS_TEST_KILLED_TOOLS` say otherwise; 50 and 5,000
take some minutes.
"""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, SecretStr
from pydantic_core import to_jsonable_python

from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.testing import eventually
from skillbus.contracts.errors import RequestError
from skillbus.contracts.indexer.index_switch import LIST_INDEXES
from skillbus.contracts.indexer.tools import AUDIT_INDEX, PUT_TOOLS, AuditIndex, IndexAudited, PutTools
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import CATALOGUE
from skillbus.indexer.adapters.kv_catalogue import open_tools
from skillbus.standalone.nats_server import NatsServer, open_nats_server
from skillbus.vectors import datasets, open_vector_store

from ...programs import Program, open_program
from .fake_embedder import open_fake_embedder

KILLS = int(os.environ.get("SKILLBUS_TEST_KILLS", "4"))
TOOLS = int(os.environ.get("SKILLBUS_TEST_KILLED_TOOLS", "1000"))
SEED = 20261122
REQUEST = 60
MOST_DELAY_S = 0.08
"""Between the write at which a process is to be killed and the kill: as long as a batch is under way."""
START_S = 30.0
PROGRAM = Path(__file__).with_name("indexer_process.py")


@dataclass(frozen=True, slots=True)
class Kill:
    """When a process is killed."""

    after_writes: int
    """To the catalogue, since it was started."""
    delay_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an import left behind."""

    records: Mapping[str, JsonValue]
    points: Mapping[str, JsonValue]
    audited: IndexAudited
    killed: int


def tools(count: int) -> list[dict[str, JsonValue]]:
    return [
        {
            "id": f"lab.{number}",
            "name": f"tool-{number}",
            "description": f"Does the {number}th thing.",
            "tags": [f"tag-{number % 7}"],
            "parameters": {"type": "object", "properties": {f"argument_{number % 11}": {"type": "string"}}},
            "source": "lab",
        }
        for number in range(count)
    ]


async def answers(bus: Bus) -> bool:
    try:
        await bus.caller.call(LIST_INDEXES, Empty(), timeout_s=1)
    except RequestError:
        return False
    return True


@asynccontextmanager
async def a_process(server: NatsServer, bus: Bus, directory: Path) -> AsyncGenerator[Program]:
    """An indexer that answers; it is killed when the context is left."""
    arguments = (str(PROGRAM), server.address.url, server.address.token, str(directory))
    async with open_program(*arguments, output=directory / "indexer.log") as process:
        await eventually(lambda: answers(bus), bool, wait_s=START_S)
        yield process


@asynccontextmanager
async def killed(bus: Bus, process: Program, kill: Kill | None) -> AsyncGenerator[None]:
    """The process is killed once it has written so much; never, if no kill is given."""
    written = 0

    async def on_write(_: Msg) -> None:
        nonlocal written
        written += 1
        if kill is not None and written == kill.after_writes:
            asyncio.get_running_loop().call_later(kill.delay_s, process.kill)

    subscription = await bus.client.subscribe(f"$KV.{CATALOGUE.name}.*.tool.*", cb=on_write)
    await confirm_subscriptions(bus.client)
    try:
        yield
    finally:
        await subscription.unsubscribe()


async def send(bus: Bus, process: Program, requests: list[Sequence[JsonValue]]) -> None:
    """Have the next requests answered, until there are none or the process is gone; what is answered is taken out."""
    gone = asyncio.create_task(process.wait())
    while requests and not gone.done():
        put = asyncio.create_task(bus.caller.call(PUT_TOOLS, PutTools(tools=tuple(requests[0]))))
        await asyncio.wait([gone, put], return_when=asyncio.FIRST_COMPLETED)
        if put.done():
            assert put.result().indexed
            requests.pop(0)
        put.cancel()
    gone.cancel()


async def audit(bus: Bus, process: Program) -> IndexAudited | None:
    """Compare records and index; None if the process is killed meanwhile, as it may be just after its last write."""
    gone = asyncio.create_task(process.wait())
    asked = asyncio.create_task(bus.caller.call(AUDIT_INDEX, AuditIndex(), timeout_s=60))
    await asyncio.wait([gone, asked], return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not asked.done():
        asked.cancel()
        return None
    return asked.result().model_copy(update={"knowledge_problem": None})  # no learner is running


async def imported(directory: Path, described: Sequence[JsonValue], kills: Sequence[Kill]) -> Outcome:
    """What is there after an import in which an indexer was killed at these points, and another went on."""
    requests = [described[at : at + REQUEST] for at in range(0, len(described), REQUEST)]
    audited: IndexAudited | None = None
    deaths = 0
    async with open_nats_server(directory / "nats") as server:
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        async with open_bus(settings, "test", CollectorRegistry()) as bus:
            await provision(bus.jetstream)
            async with open_fake_embedder(bus):
                for kill in [*kills, None]:
                    async with a_process(server, bus, directory) as process, killed(bus, process, kill):
                        await send(bus, process, requests)
                        audited = None if requests else await audit(bus, process)
                        deaths += process.returncode is not None
                    if audited is not None:
                        break
            everything = {"created_at", "updated_at"}
            records = {
                r.id: r.model_dump(mode="json", exclude=everything) async for r in open_tools(bus).iterate_records()
            }
    assert audited is not None
    return Outcome(records, await points(directory), audited, deaths)


async def points(directory: Path) -> dict[str, JsonValue]:
    """Everything of every point but when it was written."""
    found: dict[str, JsonValue] = {}
    async with open_vector_store(None, directory / "vectors") as store:
        collection, offset = str(await store.resolve_alias(datasets.TOOLS.alias)), None
        while True:
            page, offset = await store.scroll(collection, offset=offset, with_vectors=True)
            for point in page:
                payload = {key: value for key, value in (point.payload or {}).items() if key != "indexed_at"}
                found[point.id] = {"payload": payload, "vector": to_jsonable_python(point.vector)}
            if offset is None:
                return found


def kills_of(tools_count: int, count: int) -> list[Kill]:
    chance = random.Random(SEED)  # noqa: S311 - the same points in each run
    between = tools_count // (count + 1)
    return [Kill(chance.randrange(1, max(between, 2)), chance.uniform(0, MOST_DELAY_S)) for _ in range(count)]


@pytest.mark.timeout(120 + 15 * KILLS)
async def test_an_import_in_which_the_indexer_is_killed_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    described = tools(TOOLS)
    undisturbed = await imported(tmp_path / "undisturbed", described, [])
    disturbed = await imported(tmp_path / "disturbed", described, kills_of(TOOLS, KILLS))
    assert disturbed.killed > KILLS // 2  # a quick machine may be done before the last of them
    assert disturbed.records == undisturbed.records
    assert disturbed.points == undisturbed.points
    assert len(disturbed.points) == TOOLS
    assert disturbed.audited == undisturbed.audited == IndexAudited(catalogued=TOOLS, inactive=0, indexed=TOOLS)
