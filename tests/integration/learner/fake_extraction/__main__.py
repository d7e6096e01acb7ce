"""Extraction that obeys its files: each line `key=value` becomes an item, and single words steer it."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
JOB = json.loads((FOLDER / "job.json").read_text())


def make_item(name: str, number: int, line: str) -> dict[str, Any]:
    key, _, value = line.partition("=")
    return {
        "kind": "flaky" if JOB["what"] == "tests" else "config",
        "type": "test_experience" if JOB["what"] == "tests" else "project_config",
        "title": line,
        "content": line,
        "statement": {"subject": key, "predicate": "is", "value": value},
        "evidence": [{"file": name, "line": number, "quote": line}],
        "confidence": {"low": 0.5, "high": 1.0},
        "seen": 1,
    }


def tell(**line: object) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


files: list[dict[str, Any]] = []
items: list[dict[str, Any]] = []
runs: list[dict[str, Any]] = []
for file in JOB["files"]:
    text = Path(file["path"]).read_text("utf-8")
    word = text.strip()
    if word == "hold":
        tell(progress={"files_done": len(files), "bytes_done": 1, "items": len(items)})
        signal.pause()
    elif word == "crash":
        raise LookupError("secret-of-the-file")
    elif word == "fill":
        bytearray(2**40)
    elif word == "prose":
        sys.stdout.write("I found nothing.\n")
    elif word == "bad":
        files.append({"path": file["name"], "status": "failed", "error": "is not a log"})
        continue
    elif word == "history":
        known = json.loads(Path(JOB["history"]).read_text())
        items.append(make_item(file["name"], 1, f"runs={','.join(run['run'] for run in known)}"))
    elif word.startswith("run "):
        runs.append({"run": word.removeprefix("run "), "context": JOB["context"]})
    else:
        items += [make_item(file["name"], at, line) for at, line in enumerate(text.splitlines(), 1) if "=" in line]
    files.append({"path": file["name"], "status": "read", "format": "log", "records": len(text.splitlines())})
digest = [
    {"title": "line", "file": item["evidence"][0]["file"], "line": item["evidence"][0]["line"], "text": item["title"]}
    for item in items
]
tell(result={"files": files, "items": items, "runs": runs, "digest": digest})
