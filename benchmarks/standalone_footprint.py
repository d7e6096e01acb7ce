"""Start-up time of standalone, its memory when idle, and the time until eight uploaded skills are found.

Claims: ready in at most 4 s (the model is on disk); at most 350 MB for the process, its nats-server and two waiting
sandboxes, with shared pages counted once (PSS); at most 3 s from the first byte of eight archives until the last one is
found. Each start is a new process on an empty data folder; it is ready when `/readyz` answers 200, so that the model is
loaded. The baseline of the start is the time that Python takes to import the same packages.

    python benchmarks/standalone_footprint.py [--rounds 3] [--skills DIR]
"""

import contextlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Generator
from pathlib import Path

import httpx
from measuring import BenchmarkParser, save_result, summarize

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "skills"
SKILLS = 8
IDLE_S = 5.0
IMPORTS = "import skillbus.standalone.app, skillbus.standalone.services"


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
            key = json.loads((Path(data) / "connection.json").read_text())["api_key"]
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
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


def measure_memory(process: subprocess.Popen[str]) -> dict[str, float]:
    """Return the proportional set size of the process and of all below it, MB, by name."""
    found: dict[str, float] = {}
    pids = [process.pid]
    for pid in pids:
        folder = Path(f"/proc/{pid}")
        pids += [int(child) for file in folder.glob("task/*/children") for child in file.read_text().split()]
        lines = (folder / "smaps_rollup").read_text().splitlines()
        size_kb = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        name = (folder / "comm").read_text().strip()
        found[name] = round(found.get(name, 0.0) + size_kb / 1024, 1)
    return found


def pack_skills(folder: Path) -> dict[str, bytes]:
    """Return the first eight skills of a folder as zip archives, by name."""
    folders = sorted(path for path in folder.iterdir() if (path / "SKILL.md").is_file())[:SKILLS]
    return {path.name: pack_skill(path) for path in folders}


def pack_skill(folder: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(folder.parent))
    return stream.getvalue()


def install_all(client: httpx.Client, packages: dict[str, bytes]) -> float:
    """Return the seconds from the first byte of the archives until a search finds the last skill by its name."""
    start = time.perf_counter()
    for name, package in packages.items():
        reply = client.post("/api/skills", files={"package": (f"{name}.zip", package)})
        assert reply.status_code == 201, reply.text
    for name in packages:
        found = client.post("/api/tools/search", json={"query": name, "limit": 5}).json()["results"]
        assert name in {hit["name"] for hit in found}
    return time.perf_counter() - start


def import_s() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--skills", type=Path, default=EXAMPLES, help="folder of skill folders (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.read_arguments()
    packages = pack_skills(given.skills)
    ready, imports, installs, memory = [], [], [], {}
    for _ in range(given.rounds):
        imports.append(import_s())
        with running() as (process, client, ready_s):
            ready.append(ready_s)
            time.sleep(IDLE_S)
            memory = measure_memory(process)
            installs.append(install_all(client, packages))
    figures = {
        "ready_s": summarize(ready),
        "import_s": summarize(imports),
        "ready_to_import": round(summarize(ready)["p50"] / summarize(imports)["p50"], 2),
        "idle_mb": {**memory, "sum": round(sum(memory.values()), 1)},
        "install_s": summarize(installs),
    }
    bounds = {"ready_s.p50": "<= 4", "idle_mb.sum": "<= 350", "install_s.p50": "<= 3"}
    save_result("standalone_footprint", {"rounds": given.rounds, "figures": figures, "bounds": bounds}, given.out)


if __name__ == "__main__":
    main()
