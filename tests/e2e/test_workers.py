"""A skillbus of three processes: whatever was made through one of them is there in the others."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from skillbus.common.archive import PackedFile, pack_files
from skillbus.common.testing import eventually
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone

from ..scripted_answers import Answer
from ..scripted_upstream import serve_upstream

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

WORKERS = 3
VISITS = 16
"""Connections of a test, each to one of the processes. All go to one of three once in ten million times."""
_MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_COUNTED = re.compile(
    r'^skillbus_http_requests_total\{method="GET",route="/healthz".*?(?:worker="(\d+)")?\} (\S+)$', re.MULTILINE
)
_LINGER = {
    "SKILL.md": "---\nname: linger\ndescription: Lingers for a while.\nmetadata:\n  skillbus-entry: main.py\n---\n",
    "main.py": "import time\nprint('first', flush=True)\ntime.sleep(2)\nprint('last')\n",
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def skillbus(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Standalone]:
    data = tmp_path_factory.mktemp("workers") / "data"
    async with open_standalone(StandaloneSettings(data=data, http_port=0, workers=WORKERS)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def http(skillbus: Standalone) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the owner that makes a connection for each request."""
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = skillbus.http_headers
    async with httpx.AsyncClient(
        base_url=skillbus.http_url, headers=headers, limits=limits, timeout=30, trust_env=False
    ) as client:
        yield client


async def test_every_process_answers_and_says_so(http: httpx.AsyncClient) -> None:
    async def count_by_process() -> Mapping[str, str]:
        await asyncio.gather(*(http.get("/healthz") for _ in range(VISITS)))
        return dict(_COUNTED.findall((await http.get("/metrics")).text))

    counted = await eventually(count_by_process, lambda found: len(found) == WORKERS)
    assert set(counted) == {"", "1", "2"}

    status = (await http.get("/api/status")).json()
    (workers,) = (one for one in status["services"] if one["name"] == "workers")
    assert workers["detail"] == "3 of 3 processes: the main process, worker 1, worker 2"
    assert "worker 2" in (await http.get("/readyz")).text


async def test_what_an_import_has_written_is_found_through_every_process_at_once(http: httpx.AsyncClient) -> None:
    for turn in range(3):
        tool = {"id": f"shop.refund{turn}", "name": "refund", "description": f"Refund paid order number {turn}."}
        imported = await http.put("/api/tools", content=json.dumps(tool))
        assert imported.json()["indexed"], imported.text
        body = {"query": f"refund paid order number {turn}", "limit": 5, "threshold": 0}
        answers = await asyncio.gather(*(http.post("/api/tools/search", json=body) for _ in range(VISITS)))
        assert all(tool["id"] in [hit["id"] for hit in answer.json()["results"]] for answer in answers)


async def test_an_mcp_session_goes_on_whichever_process_its_next_request_reaches(http: httpx.AsyncClient) -> None:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    opened = await http.post(
        "/mcp", headers=_MCP, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    )
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], **_MCP}
    await http.post("/mcp", headers=session, json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(number: int) -> str:
        arguments = {"id": "builtin:calculate", "arguments": {"expression": f"{number} * 7"}}
        params = {"name": "call_tool", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        answer = await http.post("/mcp", headers=session, json=body)
        assert answer.status_code == 200, answer.text
        return answer.text

    texts = [await call(number) for number in range(2, 2 + VISITS)]
    assert all(str(number * 7) in text for number, text in enumerate(texts, start=2))
    assert (await http.delete("/mcp", headers=session)).status_code == 200
    assert (await http.delete("/mcp", headers=session)).status_code == 404


async def test_a_new_key_a_login_and_a_revocation_hold_everywhere_at_once(http: httpx.AsyncClient) -> None:
    for _ in range(5):
        made = (await http.post("/api/keys", json={"label": "agent", "projects": ["default"]})).json()
        key = {"Authorization": f"Bearer {made['key']}"}
        link = (await http.post("/api/session/links", json={"next": "/"}, headers=key)).json()["path"]
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=http.base_url, limits=limits, timeout=30, trust_env=False) as other:
            entered = await other.get(link)
            assert entered.status_code == 303, entered.text
            cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
            other.cookies.clear()
            for headers in (key, cookie):
                visits = await asyncio.gather(*(other.get("/api/session", headers=headers) for _ in range(VISITS)))
                assert {visit.status_code for visit in visits} == {200}
            assert (await http.delete(f"/api/keys/{made['id']}")).status_code == 200
            for headers in (key, cookie):
                visits = await asyncio.gather(*(other.get("/api/session", headers=headers) for _ in range(VISITS)))
                assert {visit.status_code for visit in visits} == {401}


async def test_a_run_is_uploaded_followed_and_remembered_through_different_processes(http: httpx.AsyncClient) -> None:
    packed = pack_files([PackedFile(name, text.encode()) for name, text in _LINGER.items()])
    installed = await http.post("/api/skills", files={"package": ("linger.zip", packed)})
    assert installed.status_code == 201, installed.text
    run_id = "ab" * 16
    asking = asyncio.create_task(http.post("/api/skills/linger/run?stream=1", json={"run_id": run_id}))

    async def is_known() -> bool:
        return (await http.get(f"/api/runs/{run_id}")).is_success

    await eventually(is_known, bool)
    followed = await asyncio.gather(*(http.get(f"/api/runs/{run_id}/events") for _ in range(VISITS // 2)))
    assert all("event: ended" in stream.text for stream in followed)
    assert '"first\\nlast\\n"' in (await asking).text
    states = await asyncio.gather(*(http.get(f"/api/runs/{run_id}") for _ in range(VISITS)))
    assert {state.json()["state"] for state in states} == {"ok"}


async def test_a_chat_is_followed_again_through_every_process(http: httpx.AsyncClient) -> None:
    async with serve_upstream(lambda _: Answer("Forty-two.")) as upstream:
        provider = {"name": "scripted", "kind": "openai", "base_url": f"{upstream.url}/v1"}
        assert (await http.post("/api/embedding/providers", json=provider)).status_code == 201
        chosen = {"provider": "scripted", "name": "small", "kind": "chat"}
        assert (await http.post("/api/embedding/models", json=chosen)).status_code == 201
        body = {"model": "scripted/small", "stream": True, "messages": [{"role": "user", "content": "6 times 7?"}]}
        chat = await http.post("/v1/chat/completions", json=body)
        first = json.loads(next(line for line in chat.text.splitlines() if line.startswith("data: {"))[6:])
        again = await asyncio.gather(*(http.get(f"/v1/chat/runs/{first['id']}") for _ in range(VISITS)))
        assert {"Forty-two." in one.text for one in again} == {True}, again[0].text


async def test_searches_go_on_while_a_worker_is_killed_and_it_starts_again_with_what_was_written_meanwhile(
    http: httpx.AsyncClient,
) -> None:
    before = _list_workers()
    assert len(before) == WORKERS - 1
    os.kill(min(before), signal.SIGKILL)
    tool = {"id": "zoo.feed", "name": "feed", "description": "Feed the penguins of the zoo."}
    await eventually(lambda: _does_listen(http), bool)  # a dead process takes its last connections along
    assert (await http.put("/api/tools", content=json.dumps(tool))).json()["indexed"]

    async def search() -> bool:
        body = {"query": "feed the penguins of the zoo", "limit": 5, "threshold": 0}
        answer = await http.post("/api/tools/search", json=body)
        return "zoo.feed" in [hit["id"] for hit in answer.json()["results"]]

    assert all([await search() for _ in range(VISITS)])

    async def read_detail() -> str:
        services = (await http.get("/api/status")).json()["services"]
        return str(next(one["detail"] for one in services if one["name"] == "workers"))

    detail = await eventually(read_detail, lambda text: "(started 2 times)" in text and "starting" not in text, 60)
    assert detail.startswith("3 of 3")
    assert _list_workers() > before - {min(before)}
    assert all([await search() for _ in range(VISITS)])


async def _does_listen(http: httpx.AsyncClient) -> bool:
    try:
        return all([(await http.get("/healthz")).is_success for _ in range(VISITS)])
    except httpx.TransportError:
        return False


def _list_workers() -> set[int]:
    """Workers of this process."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"skillbus.standalone.workers" in (path.parent / "cmdline").read_bytes():
                found.add(int(path.parent.name))
    return found
