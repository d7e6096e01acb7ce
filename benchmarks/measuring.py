"""Options, systems under test and results that all benchmarks share."""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.runner import configure_logging
from skillbus.standalone.nats_server import open_nats_server

RESULTS: Final = Path(__file__).resolve().parent / "results"
_PACKAGES: Final = ("numpy", "nats-py", "faststream", "pydantic", "qdrant-edge-py", "qdrant-client", "uvloop")


class BenchmarkParser(argparse.ArgumentParser):
    """Command line of a benchmark: its docstring as help, and `--out`, the folder for the result."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON result (%(default)s)")

    def read_arguments(self) -> argparse.Namespace:
        """Return the arguments, and silence the log."""
        configure_logging("ERROR")
        return self.parse_args()


@asynccontextmanager
async def open_bench_bus() -> AsyncGenerator[tuple[Bus, Path]]:
    """Yield a connection to a provisioned NATS server, and a temporary folder for the services on it."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_nats_server(Path(folder) / "nats") as server:
            settings = BusSettings(url=server.address.url, token=SecretStr(server.address.token))
            async with open_bus(settings, "bench", CollectorRegistry()) as bus:
                await provision(bus.jetstream)
                yield bus, Path(folder)


def describe_machine() -> dict[str, object]:
    """Return where and when this is measured; `load_1m` says how busy the machine already was."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "load_1m": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()} | {package: version(package) for package in _PACKAGES},
    }


def save_result(name: str, result: dict[str, object], folder: Path = RESULTS) -> None:
    """Print a result, and write it to `<folder>/<name>.json` with the machine it was measured on."""
    text = json.dumps(describe_machine() | result, indent=2, ensure_ascii=False)
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def summarize(values: Sequence[float], digits: int = 2) -> dict[str, float]:
    """Return minimum, median and 95th percentile."""
    ordered = sorted(values)
    return {
        "min": round(ordered[0], digits),
        "p50": round(statistics.median(ordered), digits),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], digits),
    }


def read_peak_mb() -> float:
    """Return the peak resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read_resident_bytes() -> int:
    """Return the resident memory of this process after a garbage collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def time_call(search: Callable[[int], Awaitable[int]], number: int) -> float:
    """Return the milliseconds of the search with a number, which must find something."""
    start = time.perf_counter()
    found = await search(number)
    took = (time.perf_counter() - start) * 1000
    assert found > 0
    return took
