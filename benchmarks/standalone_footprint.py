"""Standalone: from start to ready, resident memory of everything when idle, and eight archives until they are found.

Claims: ready in at most 5 s (the model is on disk), at most 450 MB resident for the process and its nats-server, and
at most 3 s from the first byte of eight archives to the last one searchable. Each start is a process of its own on an
empty data directory; "ready" is `/readyz` answering 200, so that the model is loaded. The baseline of the start is
that of Python importing the same packages.

    python benchmarks/standalone_footprint.py [--archives DIR] [--rounds 3]
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import httpx
from measuring import keep, machine, spread

ARCHIVES = Path(__file__).resolve().parents[2] / "shared" / "data" / "skills"
IDLE_S = 5.0
IMPORTS = "import skillbus.standalone.app"


@contextlib.contextmanager
def running() -> Generator[tuple[subprocess.Popen[str], httpx.Client, float]]:
    """A fresh skillbus, a client of it, and the seconds until it was ready."""
    with tempfile.TemporaryDirectory() as data:
        command = [
            sys.executable,
            "-m",
            "skillbus.cli",
            "up",
            "--data",
            data,
            "--http-port",
            "0",
            "--json",
            "--log-level",
            "ERROR",
        ]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            url = json.loads(document(process.stdout))["http_url"]
            with httpx.Client(base_url=url, timeout=30) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.02)
                yield process, client, time.perf_counter() - start
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def document(lines: object) -> str:
    """The JSON document that `up` prints when it is ready."""
    text = ""
    for line in lines:  # type: ignore[attr-defined]
        text += line
        if line.startswith("}"):
            return text
    raise RuntimeError("skillbus did not start")


def resident_mb(process: subprocess.Popen[str]) -> dict[str, float]:
    """Resident memory of the process and of its children, MB."""
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return {name_of(pid): rss_mb(pid) for pid in (str(process.pid), *children)}


def rss_mb(pid: str) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def name_of(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def install_all(client: httpx.Client, archives: Path) -> float:
    """Seconds from the first byte of the archives to the last skill being found by its name."""
    start = time.perf_counter()
    for path in sorted(archives.glob("*.zip")):
        reply = client.post("/api/skills", files={"package": (path.name, path.read_bytes())})
        assert reply.status_code == 201, reply.text
    for path in sorted(archives.glob("*.zip")):
        found = client.post("/api/tools/search", json={"query": path.stem, "limit": 5}).json()["results"]
        assert path.stem in {hit["name"] for hit in found}
    return time.perf_counter() - start


def import_s() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archives", type=Path, default=ARCHIVES)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    ready, imports, installs, memory = [], [], [], {}
    for _ in range(given.rounds):
        imports.append(import_s())
        with running() as (process, client, ready_s):
            ready.append(ready_s)
            time.sleep(IDLE_S)
            memory = resident_mb(process)
            installs.append(install_all(client, given.archives))
    figures = {
        "ready_s": spread(ready),
        "import_s": spread(imports),
        "ready_to_import": round(spread(ready)["p50"] / spread(imports)["p50"], 2),
        "idle_mb": {**memory, "sum": round(sum(memory.values()), 1)},
        "install_s": spread(installs),
    }
    bounds = {"ready_s.p50": "<= 5", "idle_mb.sum": "<= 450", "install_s.p50": "<= 3"}
    keep("standalone_footprint", {**machine(), "rounds": given.rounds, "figures": figures, "bounds": bounds})


if __name__ == "__main__":
    main()
