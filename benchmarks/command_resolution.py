"""Resolution of spoken commands over the bus in a home of 10,000 devices, against an empty request.

Claim: `resolve_command` takes at most 15 ms (median) once the words of the action were embedded before. Sentences with
a name, with a room and a type, with an error in the name, and with a reference in a session alternate with the health
request of the retriever, which is the way over the bus alone. Everything runs in one process, as in standalone. The
home and its library are generated: 1,000 rooms, five types, 32 commands. CPU time is that of all services and of the
caller.

    python benchmarks/command_resolution.py [--count 10000] [--rounds 200]
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import uvloop
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize
from pydantic import JsonValue

from skillbus.common.bus.connection import Bus
from skillbus.common.runner import settle_memory
from skillbus.contracts.indexer.commands import PUT_COMMANDS, PutCommands
from skillbus.contracts.indexer.devices import MAX_DEVICES, PUT_DEVICES, PutDevices
from skillbus.contracts.message import Empty
from skillbus.contracts.retriever import HEALTH
from skillbus.contracts.retriever.command_resolution import RESOLVE_COMMAND, ResolutionStatus, ResolveCommand
from skillbus.embedder.settings import EmbedderSettings
from skillbus.embedder.wiring import open_embedder
from skillbus.indexer.settings import IndexerSettings
from skillbus.indexer.wiring import open_indexer
from skillbus.retriever.settings import RetrieverSettings
from skillbus.retriever.wiring import open_retriever
from skillbus.vectors import open_vector_store

HOME = "benchmark"
KINDS = (("主灯", "light"), ("落地灯", "light"), ("空调", "climate"), ("窗帘", "cover"), ("风扇", "fan"))
WARM_UP = 20
PROPERTIES = ("亮度", "颜色", "色温", "温度", "湿度", "音量", "模式", "风速", "角度", "频道")


def make_device(number: int) -> JsonValue:
    words, kind = KINDS[number % len(KINDS)]
    room = f"房间{number // 10}"
    capabilities: list[JsonValue] = ["switch", f"set{number % len(PROPERTIES)}"]
    return {
        "home": HOME,
        "id": f"d{number}",
        "name": f"{room}{words}{number % 10}",
        "aliases": [f"第{number}号{words}"],
        "room": room,
        "type": kind,
        "capabilities": capabilities,
    }


def make_commands() -> tuple[JsonValue, ...]:
    pairs = [("switch.on", "打开设备", "Turn the device on"), ("switch.off", "关闭设备", "Turn the device off")]
    for number, word in enumerate(PROPERTIES):
        pairs.append((f"set{number}.set", f"设置{word}", f"Set the value {number}"))
        pairs.append((f"set{number}.read", f"读取{word}", f"Read the value {number}"))
        pairs.append((f"set{number}.reset", f"重置{word}", f"Reset the value {number}"))
    return tuple(
        {
            "id": key,
            "capability": {"id": key.partition(".")[0]},
            "command": {"id": key.partition(".")[2]},
            "description": {"zh": chinese, "en": english},
        }
        for key, chinese, english in pairs
    )


def make_sentences(number: int, rooms: int) -> Mapping[str, str]:
    """Return a sentence of each kind about a device; the reference follows the name."""
    at = number * 7 % rooms
    return {
        "name": f"打开房间{at}主灯0",
        "reference": "关闭它",
        "room_and_type": f"打开房间{at}的灯",
        "wrong_character": f"打开房间{at}主登0",
    }


async def measure(count: int, rounds: int) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        bus, data = await stack.enter_async_context(open_bench_bus())
        store = await stack.enter_async_context(open_vector_store(None, data / "vectors"))
        await stack.enter_async_context(open_embedder(bus, EmbedderSettings(data=data)))
        await stack.enter_async_context(open_indexer(bus, IndexerSettings(data=data), store))
        await stack.enter_async_context(open_retriever(bus, RetrieverSettings(), store))
        await bus.caller.call(PUT_COMMANDS, PutCommands(commands=make_commands()))
        for at in range(0, count, MAX_DEVICES):
            devices = tuple(make_device(number) for number in range(at, min(at + MAX_DEVICES, count)))
            await bus.caller.call(PUT_DEVICES, PutDevices(devices=devices))
        settle_memory()
        first = await time_ms(lambda: resolve(bus, "打开房间1主灯0"))
        return {"first_request_ms": round(first[0], 1), **await compare(bus, rounds, count // 10)}


async def compare(bus: Bus, rounds: int, rooms: int) -> dict[str, object]:
    wall: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}

    async def note(name: str, work: Callable[[], Awaitable[None]]) -> None:
        spent = await time_ms(work)
        wall.setdefault(name, []).append(spent[0])
        cpu.setdefault(name, []).append(spent[1])

    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            wall, cpu = {}, {}
        for name, text in make_sentences(number, rooms).items():
            await note("empty_request", lambda: check_health(bus))
            await note(name, lambda text=text: resolve(bus, text))  # type: ignore[misc]
    empty = summarize(wall["empty_request"])["p50"]
    return {
        "wall_ms": {name: summarize(times) for name, times in wall.items()},
        "cpu_ms": {name: summarize(times) for name, times in cpu.items()},
        "to_empty_request": {name: round(summarize(times)["p50"] / empty, 1) for name, times in wall.items()},
    }


async def resolve(bus: Bus, text: str) -> None:
    found = await bus.caller.call(RESOLVE_COMMAND, ResolveCommand(text=text, home=HOME, session="benchmark"))
    assert [result.status for result in found.results] == [ResolutionStatus.RESOLVED], found


async def check_health(bus: Bus) -> None:
    assert (await bus.caller.call(HEALTH, Empty())).ready


async def time_ms(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return wall time and CPU time."""
    start, cpu = time.perf_counter(), time.process_time()
    await work()
    return (time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.read_arguments()
    figures = uvloop.run(measure(given.count, given.rounds))
    bounds = {"wall_ms.*.p50": "<= 15"}
    setting = {"devices": given.count, "rounds": given.rounds}
    save_result("command_resolution", {**setting, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
