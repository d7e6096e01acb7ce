"""`skillbus search` as a new process: its CPU time and its time by the clock, beside the start of Python.

Claim: a search from the shell takes at most 0.35 s of CPU. It runs by turns with Python alone, and with Python that
imports the libraries which the command needs: httpx, pydantic, Rich and Typer. The server has its builtin tools alone;
its own time counts by the clock only. On a busy machine the smallest value says most.

    python benchmarks/command_line.py [--rounds 30]
"""

import os
import resource
import subprocess
import sys
import time

from measuring import BenchmarkParser, save_result, summarize
from standalone_footprint import running

COMMANDS = {
    "python": ["-c", "pass"],
    "libraries": ["-c", "import asyncio, httpx, pydantic, rich.console, typer"],
    "help": ["-m", "skillbus.cli", "--help"],
    "search": ["-m", "skillbus.cli", "search", "days between two dates"],
}


def run_once(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the CPU time of a process and the time by the clock, in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    clock_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock_s


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.read_arguments()
    cpu_s: dict[str, list[float]] = {name: [] for name in COMMANDS}
    clock_s: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with running() as (_, client, _):
        key = client.headers["Authorization"].removeprefix("Bearer ")
        environment = {**os.environ, "SKILLBUS_URL": str(client.base_url), "SKILLBUS_API_KEY": key}
        for _ in range(given.rounds):
            for name, words in COMMANDS.items():
                cpu, clock = run_once(words, environment)
                cpu_s[name].append(cpu)
                clock_s[name].append(clock)
    figures = {
        "cpu_s": {name: summarize(values, 3) for name, values in cpu_s.items()},
        "clock_s": {name: summarize(values, 3) for name, values in clock_s.items()},
    }
    bounds = {"cpu_s.search.min": "<= 0.35"}
    save_result("command_line", {"rounds": given.rounds, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
