"""What the benchmarks share: the machine they ran on, and where their results are kept."""

import json
import os
import platform
import resource
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = ("numpy", "nats-py", "faststream", "pydantic", "qdrant-edge-py", "qdrant-client", "uvloop")


def machine() -> dict[str, object]:
    """Where and when this is measured; `load_1m` tells how busy the machine was already."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "load_1m": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()} | {package: version(package) for package in _PACKAGES},
    }


def keep(name: str, result: dict[str, object]) -> None:
    """Print a result, and write it to `results/<name>.json`."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def spread(values: Sequence[float], digits: int = 2) -> dict[str, float]:
    """Minimum, median and 95th percentile."""
    ordered = sorted(values)
    return {
        "min": round(ordered[0], digits),
        "p50": round(statistics.median(ordered), digits),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], digits),
    }


def peak_mb() -> float:
    """The most memory that this process ever had resident, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
