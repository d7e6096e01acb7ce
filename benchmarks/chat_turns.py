"""A chat with two tool calls, beside the tools' own time; its first text; many chats at once; what disclosure saves.

Claims: a turn with two calls of a builtin tool takes at most 15 ms more than the tools themselves, with an upstream
that answers at once. The first text of a stream comes at most 5 ms after the upstream's. The definitions that are sent
are at most 2 % of all definitions of 5,511 tools. A hundred chats at once all end, and memory stays flat.

All services are in one process, as in standalone, with the caller. The scripted upstream is in a process of its own.
The turn begins with a search for the words of the user, which were searched before, and asks the upstream three times.

    python benchmarks/chat_turns.py [--rounds 100] [--tools 5511] [--at-once 100]
"""

import asyncio
import multiprocessing as mp
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from generator import generate_tools
from measuring import BenchmarkParser, save_result, summarize
from tool_import import import_all, number_tools, resident_bytes

from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.contracts.agent.chat import Chat, TurnEnded
from skillbus.contracts.agent.turns import CHAT, TURN_ADVANCED, TurnEventKind
from skillbus.contracts.embedder.registry import CREATE_MODEL, CREATE_PROVIDER, CreateModel, CreateProvider, ModelKind
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the scripted upstream is the tests'

from tests.scripted_answers import Answer, Call, Received
from tests.scripted_upstream import serve_upstream

SOURCE = "mcp:bench"
QUESTION = "What is 17 * 23? Calculate it."
CALLS = 2
MODEL_CALLS_AT_ONCE = 64


def script(received: Received) -> Answer:
    """Call a tool twice, then say when it is."""
    made = sum(message["role"] == "tool" for message in received.body["messages"])
    if made < CALLS and received.tool_names:
        return Answer((), [Call("builtin__calculate", {"expression": f"17 * {made + 23}"})])
    return Answer(str(time.perf_counter_ns()))


def serve_here(pipe: Connection) -> None:
    async def serve() -> None:
        async with serve_upstream(script) as upstream:
            pipe.send(upstream.url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def make_chat(*, stream: bool = False, disclose: bool = True) -> Chat:
    given = {"messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    return Chat.model_validate(given | {"disclosure": {"enabled": disclose}})


async def run_turn(system: Standalone) -> tuple[float, float, TurnEnded]:
    """Return the time of a turn, and what it takes above its tools, in milliseconds."""
    began = time.perf_counter()
    ended = await system.bus.caller.call(CHAT, make_chat())
    took_ms = (time.perf_counter() - began) * 1e3
    return took_ms, took_ms - sum(call.duration_ms for step in ended.steps for call in step.calls), ended


async def time_first_text(system: Standalone, number: int) -> float:
    """Return the time from the upstream's text to ours, over the feed of a turn without tools, in milliseconds."""
    turn_id = f"{number:032x}"
    async with subscribe_to_feed(system.bus.client, TURN_ADVANCED, turn_id) as events:
        await confirm_subscriptions(system.bus.client)
        chat = make_chat(stream=True, disclose=False).model_copy(update={"turn_id": turn_id})
        running = asyncio.create_task(system.bus.caller.call(CHAT, chat))
        async for event in events:
            if event.kind is TurnEventKind.TEXT:
                arrived = time.perf_counter_ns()
                break
        await running
    return (arrived - int(event.text)) / 1e6


async def measure(system: Standalone, rounds: int, at_once: int) -> dict[str, object]:
    for _ in range(10):
        await run_turn(system)
    turns, cpu = [], []
    for _ in range(rounds):
        used = time.process_time()
        turns.append(await run_turn(system))
        cpu.append((time.process_time() - used) * 1e3)
    first = [await time_first_text(system, number) for number in range(1, rounds + 1)]
    memory, together = [resident_bytes()], list[float]()
    for _ in range(3):
        began = time.perf_counter()
        ended = await asyncio.gather(*(system.bus.caller.call(CHAT, make_chat()) for _ in range(at_once)))
        assert all(len(one.steps) == CALLS + 1 for one in ended)
        together.append((time.perf_counter() - began) * 1e3 / at_once)
        memory.append(resident_bytes())
    disclosure = turns[-1][2].disclosure
    assert disclosure is not None
    assert disclosure.all_tokens is not None
    return {
        "turn_ms": summarize([took for took, _, _ in turns]),
        "above_the_tools_ms": summarize([above for _, above, _ in turns]),
        "process_cpu_ms": summarize(cpu),
        "first_text_ms": summarize(first),
        "definitions": disclosure.model_dump(),
        "sent_against_all": round(disclosure.shown_tokens / disclosure.all_tokens, 4),
        "at_once": at_once,
        "a_turn_at_once_ms": round(statistics.median(together), 2),
        "memory_mb": [round(size / 1e6) for size in memory],
    }


async def run(url: str, folder: Path, tools: int, rounds: int, at_once: int) -> dict[str, object]:
    async with open_standalone(StandaloneSettings(data=folder / "data", http_port=0)) as system:
        provider = {"name": "bench", "kind": "openai", "base_url": f"{url}/v1", "max_concurrency": MODEL_CALLS_AT_ONCE}
        await system.bus.caller.call(CREATE_PROVIDER, CreateProvider.model_validate(provider))
        await system.bus.caller.call(CREATE_MODEL, CreateModel(provider="bench", name="m", kind=ModelKind.CHAT))
        await import_all(system.bus, number_tools(generate_tools(tools), tools, f"{SOURCE}/tool"), SOURCE)
        return {"tools": tools, "rounds": rounds, **await measure(system, rounds, at_once)}


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--tools", type=int, default=5_511)
    parser.add_argument("--at-once", type=int, default=100)
    given = parser.read_arguments()
    ours, theirs = mp.get_context("spawn").Pipe()
    server = mp.get_context("spawn").Process(target=serve_here, args=(theirs,))
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = uvloop.run(run(ours.recv(), Path(folder), given.tools, given.rounds, given.at_once))
    finally:
        ours.send(None)
        server.join(5)
    bounds = {"above_the_tools_ms.p50": "<= 15", "first_text_ms.p50": "<= 5", "sent_against_all": "<= 0.02"}
    save_result("chat_turns", {"figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
