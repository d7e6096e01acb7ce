"""Runs in the sandbox beside the plain interpreter: with a sandbox that waits, with one that starts, and many at once.

Claims: over the bus a warm Python run takes at most 10 ms and a warm bash run at most 8 ms; a warm Node at most 0.6
times plain `node`; a cold Python run at most 25 ms more than `python3 main.py`; of 200 runs from 16 callers there are
at least 0.8 times as many a second as of the plain interpreter run the same way, by the same service for the same
callers; a sandbox that waits holds at most 12 MB; and a run that prints a gigabyte leaves the service's memory as it
was.

Every script reads JSON from standard input and prints JSON. Arms run in turns, medians count. A warm run begins when
the sandboxes wait again, as between two steps of an agent. What a file that is handed back costs more is told beside.

    python benchmarks/sandbox.py [--rounds 40]
"""

import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import uvloop
from measuring import BenchmarkParser, save_result, summarize
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.provision import provision
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skill_record import ArgsMode, EntryPoint, Runtime, Skill
from skillbus.contracts.indexer.skills import GET_SKILL, SkillSelector
from skillbus.contracts.resources import PACKAGES, make_package_name
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.isolation import Isolation, IsolationReport
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import RunControl, RunOutcome, RunSpec
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.nats_server import open_nats_server

PYTHON: Final = "import json, os, sys\ngiven = json.load(sys.stdin)\nprint(json.dumps({'n': given['n'] + 1}))\n"
LEAVES: Final = "open(os.environ['SKILLBUS_OUT'] + '/out.txt', 'w').write('x')\n"
BASH: Final = "read -r given\necho '{\"n\": 2}'\n"
NODE: Final = (
    "const given = JSON.parse(require('fs').readFileSync(0));\nconsole.log(JSON.stringify({n: given.n + 1}));\n"
)
SKILLS: Final = {
    "python": (Runtime.PYTHON, "main.py", PYTHON),
    "python-with-a-file": (Runtime.PYTHON, "leaves.py", PYTHON + LEAVES),
    "bash": (Runtime.BASH, "main.sh", BASH),
    "node": (Runtime.NODE, "main.js", NODE),
}
FLOOD: Final = "import sys\nline = b'x' * 65535 + b'\\n'\nfor _ in range(16384): sys.stdout.buffer.write(line)\n"
CALLERS: Final = 16
Arm = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Service:
    """A sandbox on a bus of its own."""

    bus: Bus

    async def run(self, name: str) -> None:
        ran = await self.bus.caller.call(RUN_SKILL, RunSkill(name=name, stdin='{"n": 1}\n'), timeout_s=60)
        assert ran.status is RunStatus.OK, ran
        assert ran.result == {"n": 2}
        assert len(ran.artifacts) == (name == "python-with-a-file")


@dataclass(frozen=True, slots=True)
class Bench:
    """Such a service, its isolation, and the same scripts in a folder."""

    service: Service
    isolation: BubblewrapIsolation
    folder: Path

    async def run(self, name: str) -> None:
        await self.service.run(name)

    async def plain(self, name: str) -> None:
        runtime, script, _ = SKILLS[name]
        _, out, _ = await plain_run((await self.isolation.probe()).runtimes[runtime], self.folder / script)
        assert json.loads(out) == {"n": 2}

    async def until_warm(self, name: str) -> None:
        async def waiting() -> int:
            return self.isolation.waiting

        await eventually(waiting, lambda number: number >= 2 + (name == "node"), wait_s=30)


async def plain_run(interpreter: Path, script: Path) -> tuple[int, bytes, bytes]:
    """Of the script alone: its exit code, standard output and standard error."""

    def start() -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            (interpreter, script),
            input=b'{"n": 1}\n',
            capture_output=True,
            check=False,
            cwd=script.parent,
            env={"SKILLBUS_OUT": str(script.parent), "PATH": "/usr/bin:/bin"},
        )

    # By the way that takes least: uvloop would fork this whole process for it, which costs a quarter more.
    done = await asyncio.to_thread(start)
    return done.returncode, done.stdout, done.stderr


@dataclass(frozen=True, slots=True)
class PlainIsolation:
    """None: a service that starts the plain interpreter and reads what it prints, and does nothing else."""

    found: IsolationReport

    async def probe(self) -> IsolationReport:
        return self.found

    async def run(self, spec: RunSpec, control: RunControl | None = None) -> RunOutcome:
        began = time.monotonic()
        code, out, said = await plain_run(self.found.runtimes[spec.runtime], spec.skill_root / spec.script)
        status = RunStatus.FAILED if code else RunStatus.OK
        took_ms = 1000 * (time.monotonic() - began)
        return RunOutcome(status, code, out, said, (), took_ms, 0.0, False, self.found.level)


def skill(name: str, runtime: Runtime, script: str, package: bytes) -> Skill:
    digest, now = hashlib.sha256(package).hexdigest(), datetime.now(UTC)
    entry = EntryPoint(action="run", script=script, runtime=runtime, args_mode=ArgsMode.ARGV)
    return Skill(
        name=name,
        description=name,
        digest=digest,
        content_digest=digest,
        size_bytes=len(package),
        entry_points=(entry,),
        default_action="run",
        installed_at=now,
        updated_at=now,
    )


@asynccontextmanager
async def open_service(folder: Path, isolation: Isolation) -> AsyncGenerator[Service]:
    """With the scripts in `folder`, as skills."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_nats_server(folder / "nats"))
        settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
        bus = await stack.enter_async_context(open_bus(settings, "bench", CollectorRegistry()))
        await provision(bus.jetstream)
        packages, skills = await open_object_store(bus, PACKAGES), {}
        for name, (runtime, script, source) in SKILLS.items():
            folder.joinpath(script).write_text(source)
            package = pack_files([PackedFile("SKILL.md", b"."), PackedFile(script, source.encode())])
            made = skills[name] = skill(name, runtime, script, package)
            await packages.put(make_package_name(made.project, made.name, made.content_digest), package)

        async def get(request: SkillSelector) -> Skill:
            return skills[request.name]

        responder = Responder(bus.client, "indexer", "0.1.0", bus.metrics, bus.local_endpoints)
        await responder.start(route(GET_SKILL, get))
        stack.push_async_callback(responder.drain)
        sandbox = SandboxSettings(data=folder / "sandbox", waiting=CALLERS)
        await stack.enter_async_context(open_sandbox(bus, sandbox, isolation))
        yield Service(bus)


@asynccontextmanager
async def open_bench(folder: Path, warm: int) -> AsyncGenerator[Bench]:
    async with BubblewrapIsolation(warm=warm) as isolation, open_service(folder, isolation) as service:
        yield Bench(service, isolation, folder)


async def timed(arm: Awaitable[None]) -> float:
    start = time.perf_counter()
    await arm
    return (time.perf_counter() - start) * 1000


async def in_turns(bench: Bench, name: str, rounds: int, *, warm: bool) -> dict[str, object]:
    plain, sandboxed = [], []
    await bench.run(name)  # unpacked, and for Node: waited for from now on
    for _ in range(rounds):
        plain.append(await timed(bench.plain(name)))
        if warm:
            await bench.until_warm(name)
        sandboxed.append(await timed(bench.run(name)))
    ratio = round(summarize(sandboxed)["p50"] / summarize(plain)["p50"], 2)
    added = round(summarize(sandboxed)["p50"] - summarize(plain)["p50"], 2)
    return {"plain_ms": summarize(plain), "sandbox_ms": summarize(sandboxed), "to_plain": ratio, "added_p50_ms": added}


def busy_ms() -> float:
    """Time of all processors, whoever used it: the bus's server and the kernel's threads too, and the machine's others.

    Source: proc(5), the first line of /proc/stat: of its figures the fourth and fifth are of idling, the eighth is of
    other machines.
    """
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split(None, 9)[1:9])
    return 1000 * (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


async def time_many(arm: Arm, runs: int) -> tuple[float, float]:
    """Return runs per second, and the processor time of the whole machine per run, in milliseconds."""
    left = iter(range(runs))

    async def caller() -> None:
        for _ in left:
            await arm()

    start, used_ms = time.perf_counter(), busy_ms()
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())
    return runs / (time.perf_counter() - start), (busy_ms() - used_ms) / runs


async def compare_many(bench: Bench, unconfined: Service, runs: int, turns: int) -> dict[str, object]:
    """In turns. `bare` is the interpreter alone, started by this process for nobody: no service, no bus, no history.

    On a machine that others use, look at the time of the processors as well, which has theirs in it.
    """
    slots = asyncio.Semaphore(SandboxSettings().slots)

    async def bare() -> None:
        async with slots:
            await bench.plain("python")

    arms: dict[str, Arm] = {
        "sandbox": partial(bench.run, "python"),
        "plain": partial(unconfined.run, "python"),
        "bare": bare,
    }
    await unconfined.run("python")  # unpacked
    found = {name: list[tuple[float, float]]() for name in arms}
    for _ in range(turns):
        for name, arm in arms.items():
            await bench.until_warm("python")
            found[name].append(await time_many(arm, runs))
    rates = {name: [rate for rate, _ in pairs] for name, pairs in found.items()}
    used = {name: [used_ms for _, used_ms in pairs] for name, pairs in found.items()}
    sandbox_s, plain_s, bare_s = (statistics.median(rates[name]) for name in arms)
    return {
        "runs_a_second": {name: summarize(turns, 1) for name, turns in rates.items()},
        "processor_ms_a_run": {name: summarize(turns, 1) for name, turns in used.items()},
        "to_plain": round(sandbox_s / plain_s, 2),
        "to_bare": round(sandbox_s / bare_s, 2),
        "to_plain_by_processor": round(statistics.median(used["plain"]) / statistics.median(used["sandbox"]), 2),
    }


def proportional_mb(pids: frozenset[int]) -> float:
    lines = (line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


async def idle(bench: Bench) -> dict[str, float]:
    """Memory of one sandbox that waits, pages that it shares with others counted in part."""
    await bench.until_warm("python")
    waiting = bench.isolation.waiting
    return {"waiting": waiting, "mb_each": round(proportional_mb(bench.isolation.waiting_pids) / waiting, 1)}


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


async def measure_flood(folder: Path) -> dict[str, object]:
    """Run a script that prints a gigabyte, and return how much is kept and how much the service's memory grows."""
    root = folder / "flood"
    root.mkdir(mode=0o755)
    root.joinpath("main.py").write_text(FLOOD)
    async with BubblewrapIsolation() as isolation:
        await isolation.probe()
        before, highest = resident_mb(), 0.0
        run = asyncio.ensure_future(isolation.run(RunSpec(root, "main.py", Runtime.PYTHON)))
        while not run.done():
            highest = max(highest, resident_mb())
            await asyncio.sleep(0.005)
        outcome = await run
    grew_mb, kept_mb = highest - before, len(outcome.stdout) / 2**20
    return {"status": outcome.status, "kept_mb": round(kept_mb, 1), "grew_mb": round(grew_mb, 1)}


async def measure_time_limit(folder: Path, wall_s: float) -> dict[str, object]:
    """Run a script that never ends, and return the time until it was ended (specified: 60 s)."""
    root = folder / "endless"
    root.mkdir(mode=0o755)
    root.joinpath("main.py").write_text("import time\nwhile True: time.sleep(1)\n")
    async with BubblewrapIsolation() as isolation:
        await isolation.probe()
        outcome = await isolation.run(RunSpec(root, "main.py", Runtime.PYTHON, limits=Limits(wall_s=wall_s)))
    return {"status": outcome.status, "wall_s": wall_s, "ended_s": round(outcome.duration_ms / 1000, 2)}


async def measure(rounds: int, runs: int, turns: int, wall_s: float) -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for name, warm in (("warm", 2), ("cold", 0)):
            inner = Path(folder, name)
            inner.mkdir(mode=0o755)
            async with open_bench(inner, warm) as bench:
                runtimes = (await bench.isolation.probe()).runtimes
                if warm:
                    await bench.until_warm("python")
                    figures["idle"] = await idle(bench)
                figures[name] = {
                    skill_: await in_turns(bench, skill_, rounds, warm=bool(warm))
                    for skill_, (runtime, _, _) in SKILLS.items()
                    if runtime in runtimes
                }
                if warm:
                    unconfined = Path(folder, "unconfined")
                    unconfined.mkdir()
                    async with open_service(unconfined, PlainIsolation(await bench.isolation.probe())) as plain:
                        figures["many"] = await compare_many(bench, plain, runs, turns)
        figures["flood"] = await measure_flood(Path(folder))
        figures["limits"] = await measure_time_limit(Path(folder), wall_s)
    return figures


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=200, help="runs at once from 16 callers (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="repetitions of the runs at once (%(default)s)")
    parser.add_argument("--wall-s", type=float, default=Limits().wall_s, help="time limit to measure (%(default)s)")
    given = parser.read_arguments()
    bounds = {
        "warm.python.sandbox_ms.p50": "<= 10",
        "warm.bash.sandbox_ms.p50": "<= 8",
        "warm.node.to_plain": "<= 0.6",
        "cold.python.added_p50_ms": "<= 25",
        "many.to_plain": ">= 0.8",
        "idle.mb_each": "<= 12",
        "flood.grew_mb": "<= 64: a few times the output limit",
        "flood.kept_mb": "10: the output limit",
        "limits.ended_s": "60 to 61: the time limit",
    }
    figures = uvloop.run(measure(given.rounds, given.runs, given.turns, given.wall_s))
    save_result(
        "sandbox",
        {"rounds": given.rounds, "runs": given.runs, "turns": given.turns, "figures": figures, "bounds": bounds},
        given.out,
    )


if __name__ == "__main__":
    main()
