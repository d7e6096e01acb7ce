"""A skill that wants the network: nothing, until an operator approves; then that place and no other."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
import pytest_asyncio
from pydantic import JsonValue
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from skillbus.standalone.app import StandaloneSettings, open_standalone

from .conftest import Json, System, open_http, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = """
import json, os, sys, urllib.error, urllib.request

def fetched(url):
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({"http": os.environ.get("HTTP_PROXY", "")})
                                           ).open(url, timeout=5).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason}"
    except OSError as error:
        return type(error).__name__

os.environ.pop("no_proxy", None), os.environ.pop("NO_PROXY", None)
print(json.dumps([fetched(url) for url in sys.argv[1:]]))
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[System]:
    """One whose operator has opened loopback: the places of these tests are there."""
    settings = StandaloneSettings(data=tmp_path_factory.mktemp("network") / "parent" / "data", http_port=0)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SKILLBUS_SANDBOX_PRIVATE_ADDRESSES", "127.0.0.0/8")
        async with (
            open_standalone(settings) as standalone,
            open_http(standalone) as http,
        ):
            yield System(standalone, http)


@pytest_asyncio.fixture(loop_scope="module")
async def place() -> AsyncGenerator[str]:
    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(attend, "127.0.0.1", 0) as server:
        yield f"localhost:{server.sockets[0].getsockname()[1]}"


async def approve(system: System, *places: str) -> httpx.Response:
    approved: Json = {"approved": list[JsonValue](places)}
    return await system.http.put("/api/skills/reach/network", json=approved)


async def reached(system: System, *places: str) -> JsonValue:
    answer = await system.run("reach", argv=list[JsonValue](f"http://{place}/" for place in places))
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "ok", answer.text
    result: JsonValue = answer.json()["result"]
    return result


async def test_a_run_reaches_what_was_approved_and_only_while_it_is(opened: System, place: str) -> None:
    wanting = f"Reaches out.\nnetwork: [{place}, '*.example.org:443']"
    installed = await opened.install(skill_package("reach", wanting, {"scripts/main.py": SCRIPT}))
    assert installed.status_code == 201, installed.text
    assert installed.json()["network"] == [place]
    assert installed.json()["network_approved"] == []
    assert "bad_network_place" in [warning["code"] for warning in installed.json()["warnings"]]

    assert await reached(opened, place) == ["URLError"]
    assert problem(await approve(opened, "other.example:80")) == (400, "invalid_request")
    assert (await approve(opened, place)).json()["network_approved"] == [place]
    shut = "other.example:80"
    with capture_logs(processors=[merge_contextvars]) as logs:
        assert await reached(opened, place, shut) == ["reached", f"403 {shut} is not an approved place of this skill"]
    told = [entry for entry in logs if entry["event"] == "egress_connection"]
    assert [(entry["skill"], entry["verdict"]) for entry in told] == [("reach", "allowed"), ("reach", "not_approved")]
    assert {entry["run_id"] for entry in told} == {(await opened.http.get("/api/runs")).json()["runs"][0]["run_id"]}
    assert (await approve(opened)).json()["network_approved"] == []
    assert await reached(opened, place) == ["URLError"]
