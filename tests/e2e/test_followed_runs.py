"""Runs that are followed, left and looked at, on a whole skillbus: over HTTP and by the command."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.testing import eventually

from .conftest import System

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SKILL = """---
name: linger
description: Prints, leaves a file, and lingers.
metadata:
  skillbus-entry: main.py
  skillbus-args: argv
  skillbus-limits: '{"wall_s": 20, "memory_mib": 256, "processes": 9999999}'
---
"""
_SCRIPT = """
import os, pathlib, sys, time
pathlib.Path(os.environ["SKILLBUS_OUT"], "note.txt").write_text("left behind")
print("first", flush=True)
if "--linger" in sys.argv: time.sleep(60)
print("last")
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def linger(system: System) -> None:
    files = [PackedFile("SKILL.md", _SKILL.encode()), PackedFile("main.py", _SCRIPT.encode())]
    installed = await system.install(pack_files(files))
    assert installed.status_code == 201, installed.text
    assert [finding["code"] for finding in installed.json()["warnings"]] == ["bad_limit"]


async def events_of(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, object]]]:
    name = ""
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def state_of(system: System, run_id: object) -> str:
    state: str = (await system.http.get(f"/api/runs/{run_id}")).json()["state"]
    return state


@pytest.mark.usefixtures("linger")
async def test_a_run_is_followed_and_then_remembered_with_its_files(system: System) -> None:
    async with system.http.stream("POST", "/api/skills/linger/run?stream=1", json={}) as answer:
        events = [event async for event in events_of(answer)]
    reply = events[-1][1]
    assert [name for name, _ in events if name != "output"] == ["begun", "reply"]
    assert "".join(str(data["text"]) for name, data in events if name == "output") == "first\nlast\n" == reply["stdout"]

    record = (await system.http.get(f"/api/runs/{reply['run_id']}")).json()
    file = await system.http.get(f"/api/runs/{reply['run_id']}/artifacts/note.txt")
    assert (record["state"], record["artifacts"]) == ("ok", [{"name": "note.txt", "size_bytes": 11}])
    assert (record["limits"]["wall_s"], record["limits"]["memory_bytes"]) == (20, 256 * 2**20)
    assert record["used"]["cpu_ms"] > 0
    assert (file.text, file.headers["Content-Length"]) == ("left behind", "11")


@pytest.mark.usefixtures("linger")
@pytest.mark.parametrize("printed", [True, False])
async def test_the_run_of_somebody_else_is_watched_to_its_end(system: System, printed: bool) -> None:
    run_id = os.urandom(16).hex()
    body, stream = {"argv": ["--linger"], "run_id": run_id}, "?stream=1" if printed else ""
    async with asyncio.timeout(20):
        asking = asyncio.create_task(system.http.post(f"/api/skills/linger/run{stream}", json=body))
        await eventually(lambda: known(system, run_id), bool)
        async with system.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
            events = events_of(answer)
            first = await anext(events)
            assert (first[0], first[1]["state"]) == ("running", "running")
            assert (await system.http.delete(f"/api/runs/{run_id}")).json()["ending"]
            *_, last = [event async for event in events]
        await asking
    assert (last[0], last[1]["state"]) == ("ended", "cancelled")
    assert last[1]["used"]


@pytest.mark.usefixtures("linger")
@pytest.mark.parametrize("followed", [True, False])
async def test_a_caller_that_hangs_up_ends_its_run(system: System, followed: bool) -> None:
    run_id = os.urandom(16).hex()
    body = {"args": {"linger": True}, "run_id": run_id}
    headers = {"Accept": "text/event-stream"} if followed else {}
    async with asyncio.timeout(15):
        asking = asyncio.create_task(system.http.post("/api/skills/linger/run", json=body, headers=headers))
        await eventually(lambda: known(system, run_id), bool)
        asking.cancel()
        assert await eventually(lambda: state_of(system, run_id), lambda state: state != "running") == "cancelled"


async def known(system: System, run_id: str) -> bool:
    return (await system.http.get(f"/api/runs/{run_id}")).is_success


@pytest.mark.usefixtures("linger")
async def test_ctrl_c_ends_a_run_of_the_command_and_shows_what_it_gave(system: System, tmp_path: Path) -> None:
    words = ("run", "linger", "--stream", "--out", str(tmp_path), "--url", str(system.http.base_url), "--", "--linger")
    command = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "skillbus.cli",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "SKILLBUS_DATA": str(system.data)},
    )
    async with asyncio.timeout(15):
        assert command.stdout is not None
        assert await command.stdout.readline() == b"first\n"
        command.send_signal(signal.SIGINT)
        out, err = await command.communicate()
    (newest,) = (await system.http.get("/api/runs?limit=1")).json()["runs"]
    assert (command.returncode, out, newest["state"]) == (1, b"", "cancelled")
    assert b"cancelled" in err


@pytest.mark.usefixtures("linger")
async def test_a_skill_is_called_like_any_tool_and_its_files_are_links(system: System) -> None:
    async with system.http.stream("POST", "/api/tools/skill:linger/call?stream=1", json={}) as answer:
        events = [event async for event in events_of(answer)]
    content = events[-1][1]["content"]
    assert isinstance(content, list)
    text, link = content
    assert [name for name, _ in events if name != "output"] == ["begun", "reply"]
    assert "".join(str(data["text"]) for name, data in events if name == "output") == "first\nlast\n" == text["text"]
    assert (link["name"], link["mimeType"], link["size"]) == ("note.txt", "text/plain", 11)
    assert (await system.http.get(link["uri"])).text == "left behind"


@pytest.mark.usefixtures("linger")
@pytest.mark.parametrize("followed", [True, False])
async def test_a_caller_that_hangs_up_ends_its_call_of_a_skill(system: System, followed: bool) -> None:
    run_id = os.urandom(16).hex()
    body = {"arguments": {"linger": True}, "run_id": run_id}
    headers = {"Accept": "text/event-stream"} if followed else {}
    async with asyncio.timeout(15):
        asking = asyncio.create_task(system.http.post("/api/tools/skill:linger/call", json=body, headers=headers))
        await eventually(lambda: known(system, run_id), bool)
        asking.cancel()
        assert await eventually(lambda: state_of(system, run_id), lambda state: state != "running") == "cancelled"


@pytest.mark.usefixtures("linger")
async def test_a_run_of_another_project_is_not_seen(system: System) -> None:
    reply = (await system.run("linger")).json()
    other = await system.http.get(f"/api/runs/{reply['run_id']}?project=other")
    cancelled = await system.http.delete(f"/api/runs/{reply['run_id']}?project=other")
    assert (other.status_code, cancelled.status_code) == (404, 404)
    assert (await system.http.get("/api/runs?project=other")).json()["runs"] == []
