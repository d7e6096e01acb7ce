"""Cold run in the sandbox beside the plain interpreter, interleaved in one process: wall clock and CPU of both.

    uv run python benchmarks/sandbox_cold_start.py [--rounds 30] > benchmarks/results/sandbox_cold_start.json

Every run reads JSON on standard input, prints JSON and leaves one file; the sandboxed one also hands it back as an
artifact. CPU is that of all children, the sandbox's own programs included.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from skillbus.sandbox.adapters.bubblewrap import BubblewrapIsolation
from skillbus.sandbox.domain.isolation import IsolationReport
from skillbus.sandbox.domain.run import RunSpec, runtime_of

SCRIPTS = {
    "main.py": "import json, os, sys\n"
    "given = json.load(sys.stdin)\n"
    "open(os.environ['SKILLBUS_OUT'] + '/out.txt', 'w').write('x')\n"
    "print(json.dumps({'n': given['n'] + 1}))\n",
    "main.sh": 'read -r given\necho x > "$SKILLBUS_OUT/out.txt"\necho \'{"n": 2}\'\n',
    "main.js": "const fs = require('fs');\n"
    "const given = JSON.parse(fs.readFileSync(0));\n"
    "fs.writeFileSync(process.env.SKILLBUS_OUT + '/out.txt', 'x');\n"
    "console.log(JSON.stringify({n: given.n + 1}));\n",
}
STDIN = b'{"n": 1}\n'
Arm = Callable[[], Coroutine[None, None, None]]


def children_cpu_ms() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (usage.ru_utime + usage.ru_stime)


async def timed(arm: Arm) -> tuple[float, float]:
    cpu, began = children_cpu_ms(), time.perf_counter()
    await arm()
    return 1000 * (time.perf_counter() - began), children_cpu_ms() - cpu


def plain(interpreter: Path, script: Path, out: Path) -> Arm:
    async def arm() -> None:
        done = await asyncio.to_thread(
            subprocess.run,
            [interpreter, script],
            input=STDIN,
            capture_output=True,
            check=True,
            env={"SKILLBUS_OUT": str(out), "PATH": "/usr/bin:/bin"},
        )
        assert json.loads(done.stdout) == {"n": 2}

    return arm


def sandboxed(isolation: BubblewrapIsolation, spec: RunSpec) -> Arm:
    async def arm() -> None:
        outcome = await isolation.run(spec)
        assert json.loads(outcome.stdout) == {"n": 2}, outcome
        assert [artifact.name for artifact in outcome.artifacts] == ["out.txt"]

    return arm


def summary(samples: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = ([sample[index] for sample in samples] for index in (0, 1))
    return {
        "wall_ms_min": round(min(wall), 1),
        "wall_ms_p50": round(statistics.median(wall), 1),
        "wall_ms_p90": round(statistics.quantiles(wall, n=10)[-1], 1),
        "cpu_ms_p50": round(statistics.median(cpu), 1),
    }


async def compare(
    isolation: BubblewrapIsolation, report: IsolationReport, root: Path, name: str, rounds: int
) -> object:
    runtime = runtime_of(name)
    arms = {
        "plain": plain(report.runtimes[runtime], root / name, root / "out"),
        "sandbox": sandboxed(isolation, RunSpec(root, name, runtime, stdin=STDIN)),
    }
    samples: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
    for turn in range(rounds + 2):
        for arm, run in arms.items():
            sample = await timed(run)
            if turn >= 2:
                samples[arm].append(sample)
    found = {arm: summary(of) for arm, of in samples.items()}
    added = {key: round(found["sandbox"][key] - found["plain"][key], 1) for key in found["plain"]}
    ratio = round(found["sandbox"]["wall_ms_p50"] / found["plain"]["wall_ms_p50"], 2)
    return {**found, "added": added, "ratio_wall_p50": ratio}


def version(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


async def main(rounds: int) -> None:
    isolation = BubblewrapIsolation()
    report = await isolation.probe()
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "out").mkdir()
        for name, source in SCRIPTS.items():
            (root / name).write_text(source)
        languages = {
            runtime_of(name).value: await compare(isolation, report, root, name, rounds)
            for name in SCRIPTS
            if runtime_of(name) in report.runtimes
        }
    print(
        json.dumps(
            {
                "benchmark": "sandbox_cold_start",
                "machine": {
                    "cpus": os.cpu_count(),
                    "kernel": platform.release(),
                    "load_before": load,
                    "load_after": os.getloadavg(),
                },
                "versions": {
                    "bwrap": report.engine.rsplit(": ", 1)[-1],
                    **{runtime.value: version(path) for runtime, path in report.runtimes.items()},
                },
                "level": report.level,
                "as_root": os.geteuid() == 0,
                "rounds": rounds,
                "cold": languages,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    asyncio.run(main(parser.parse_args().rounds))
