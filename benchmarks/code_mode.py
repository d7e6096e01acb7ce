"""A program that makes many tool calls, beside the tools' own time and beside the same calls one by one.

Claim: 50 calls of a builtin tool in one program take at most 40 ms more than the tools themselves, the start of the
program included.

Agent, sandbox and catalogue are on one NATS server and in one process with the caller, as in standalone. Arms run in
turns, medians count. The tools' own time is the sum of `duration_ms` of the results, in the same run of the program.
CPU time is that of this process, which does everything but the program itself. What a model reads is counted in
characters: the code and the answer of the program, against the arguments and results of the calls.

    python benchmarks/code_mode.py [--rounds 30] [--calls 50]
"""

import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import uvloop
from measuring import BenchmarkParser, open_bench_bus, save_result, summarize

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool, ToolCalled
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import (
    GET_TOOL,
    PUT_TOOLS,
    CatalogueTool,
    GetTool,
    PutTools,
    ToolDescription,
    ToolsPut,
)
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox

PROGRAM: Final = """
total, own_ms = 0, 0.0
for number in range({calls}):
    called = await call_tool("builtin:calculate", expression=f"{{number}} * 2")
    total += int(called["structured"]["result"])
    own_ms += called["duration_ms"]
[total, own_ms]
"""
AT_ONCE: Final = """
import asyncio
called = await asyncio.gather(*(call_tool("builtin:calculate", expression=f"{{n}} * 2") for n in range({calls})))
[sum(int(one["structured"]["result"]) for one in called), sum(one["duration_ms"] for one in called)]
"""
EMPTY: Final = "[0, 0.0]"


class Catalogue:
    """Tools in memory, in the place of an indexer."""

    def __init__(self) -> None:
        self.tools: dict[str, CatalogueTool] = {}

    async def put(self, request: PutTools) -> ToolsPut:
        now = datetime.now(UTC)
        for raw in request.tools:
            tool = ToolDescription.model_validate(raw)
            self.tools[tool.id] = CatalogueTool(tool=tool, digest="", created_at=now, updated_at=now)
        return ToolsPut(results=(), indexed=True)

    async def get(self, request: GetTool) -> CatalogueTool:
        if (found := self.tools.get(request.id)) is None:
            raise RequestError(ErrorCode.NOT_FOUND, request.id)
        return found

    async def has_programs(self) -> bool:
        return "builtin:run_code" in self.tools


@dataclass(frozen=True, slots=True)
class Bench:
    """Running services."""

    bus: Bus
    isolation: BubblewrapIsolation
    calls: int

    async def run(self, program: str) -> tuple[float, float, int]:
        """Run a program; return its time and the tools' own in milliseconds, and what a model reads in characters."""

        async def waiting() -> int:
            return self.isolation.waiting

        await eventually(waiting, lambda number: number >= 2, wait_s=30)
        code = program.format(calls=self.calls)
        began = time.perf_counter()
        called = await self._call("builtin:run_code", code=code)
        took_ms = 1000 * (time.perf_counter() - began)
        assert isinstance(called.structured, list), called
        return took_ms, float(str(called.structured[1])), len(code) + len(called.text)

    async def call_one_by_one(self) -> tuple[float, int]:
        """Make the same calls from outside; return their time and what a model reads."""
        began, read = time.perf_counter(), 0
        for number in range(self.calls):
            called = await self._call("builtin:calculate", expression=f"{number} * 2")
            read += len(f'{{"id":"builtin:calculate","arguments":{{"expression":"{number} * 2"}}}}')
            read += len(called.model_dump_json())
        return 1000 * (time.perf_counter() - began), read

    async def _call(self, tool_id: str, **arguments: str) -> ToolCalled:
        called = await self.bus.caller.call(CALL_TOOL, CallTool.model_validate({"id": tool_id, "arguments": arguments}))
        assert not called.is_error, called
        return called


@asynccontextmanager
async def open_bench(calls: int) -> AsyncGenerator[Bench]:
    async with open_bench_bus() as (bus, folder), BubblewrapIsolation(warm=2) as isolation:
        catalogue = Catalogue()
        responder = Responder(bus.client, "indexer", "0.0.0", bus.metrics)
        await responder.start(route(PUT_TOOLS, catalogue.put), route(GET_TOOL, catalogue.get))
        async with (
            open_sandbox(bus, SandboxSettings(data=folder / "sandbox"), isolation),
            open_agent(bus, AgentSettings(data=folder / "agent", program_calls=max(calls, 200))),
        ):
            await eventually(catalogue.has_programs, bool)
            yield Bench(bus, isolation, calls)
        await responder.drain()


async def measure(rounds: int, calls: int) -> dict[str, object]:
    programs = {"one after another": PROGRAM, "at once": AT_ONCE, "no call": EMPTY}
    took: dict[str, list[float]] = {name: [] for name in programs}
    above: dict[str, list[float]] = {name: [] for name in programs}
    cpu: dict[str, list[float]] = {name: [] for name in programs}
    outside: list[float] = []
    cpu_outside: list[float] = []
    read, read_outside = 0, 0
    async with open_bench(calls) as bench:
        for program in programs.values():  # warm up
            await bench.run(program)
        for _ in range(rounds):
            for name, program in programs.items():
                cpu_began = time.process_time()
                took_ms, own_ms, characters = await bench.run(program)
                cpu[name].append(1000 * (time.process_time() - cpu_began))
                took[name].append(took_ms)
                above[name].append(took_ms - own_ms)
                read = characters if program is PROGRAM else read
            cpu_began = time.process_time()
            outside_ms, read_outside = await bench.call_one_by_one()
            cpu_outside.append(1000 * (time.process_time() - cpu_began))
            outside.append(outside_ms)
    started_ms = statistics.median(took["no call"])
    return {
        "calls": calls,
        "program_ms": {name: summarize(values) for name, values in took.items()},
        "cpu_ms": {name: summarize(values) for name, values in {**cpu, "from outside": cpu_outside}.items()},
        "above_the_tools_ms": summarize(above["one after another"]),
        "calls_from_outside_ms": summarize(outside),
        "a_call_above_its_tool_ms": round((statistics.median(above["one after another"]) - started_ms) / calls, 3),
        "characters_for_the_model": {"program": read, "calls": read_outside},
    }


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=50)
    options = parser.read_arguments()
    figures = uvloop.run(measure(options.rounds, options.calls))
    save_result("code_mode", {"figures": figures}, options.out)


if __name__ == "__main__":
    main()
