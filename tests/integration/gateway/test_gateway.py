import asyncio
import base64
import hashlib
import os
import signal
import socket
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from skillbus.common.bus.connection import Bus
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import route
from skillbus.common.http_server import PortInUseError
from skillbus.common.runner import StartError
from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.endpoint import Health
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import INSTALL_SKILL, InstallSkill, SkillInstalled
from skillbus.contracts.message import Content, Empty
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, Artifact, RunSkill, RunStatus, SkillRan
from skillbus.gateway.adapters.body_limit import LINGER_BYTES
from skillbus.gateway.domain.access.startup import OwnerKeyInvalidError, OwnerKeyRequiredError, TlsRequiredError
from skillbus.gateway.settings import GatewaySettings
from skillbus.gateway.wiring import Gateway, open_gateway
from skillbus.standalone.nats_server import NatsServer

from .conftest import OWNER, OWNER_KEY, Serve, make_settings

MIB = 1024 * 1024
WAIT_S = 5
PACKAGE = os.urandom(MIB)
PART = b'--b\r\nContent-Disposition: form-data; name="package"; filename="p"\r\n\r\n'
RUN = "0123456789abcdef" * 2


async def install(request: InstallSkill) -> SkillInstalled:
    now = datetime.now(UTC)
    skill = Skill(
        name="calculate",
        description="数学计算",
        digest=request.package.sha256,
        content_digest=request.package.sha256,
        size_bytes=request.package.size_bytes,
        installed_at=now,
        updated_at=now,
    )
    return SkillInstalled(outcome="installed", skill=skill)


async def find(_: SearchTools) -> ToolsFound:
    return ToolsFound(results=(), model="use", took_ms=1)


def content_of(data: bytes, **where: str | bytes) -> Content:
    return Content.model_validate({"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **where})


async def test_an_uploaded_package_is_in_the_bucket_when_the_indexer_is_asked(
    http: httpx.AsyncClient, services: Bus, serve: Serve
) -> None:
    packages = await open_object_store(services, PACKAGES)

    async def install_from_bucket(request: InstallSkill) -> SkillInstalled:
        name = request.package.object_name or ""
        stored = await packages.get(name, 20 * MIB)
        await packages.delete(name)
        assert hashlib.sha256(stored).hexdigest() == request.package.sha256
        return await install(request)

    await serve(route(INSTALL_SKILL, install_from_bucket))
    answer = await http.post("/api/skills", files={"package": ("p.zip", PACKAGE)})
    assert (answer.status_code, answer.json()["digest"]) == (201, hashlib.sha256(PACKAGE).hexdigest())


async def test_a_rejected_package_leaves_nothing_in_the_bucket(
    http: httpx.AsyncClient, services: Bus, serve: Serve
) -> None:
    async def reject(_: InstallSkill) -> SkillInstalled:
        details = {"errors": [{"code": "NO_SKILL_MD", "message": "SKILL.md is missing", "where": ""}]}
        raise RequestError(ErrorCode.SKILL_REJECTED, "SKILL.md is missing.", details=details)

    await serve(route(INSTALL_SKILL, reject))
    answer = await http.post("/api/skills", files={"package": ("p.zip", PACKAGE)})
    assert (answer.status_code, answer.json()["details"]["errors"][0]["code"]) == (422, "NO_SKILL_MD")
    assert await (await open_object_store(services, PACKAGES)).names() == []


async def test_an_upload_during_a_crash_of_nats_is_installed_once_it_is_back(
    http: httpx.AsyncClient, nats_server: NatsServer, serve: Serve
) -> None:
    await serve(route(INSTALL_SKILL, install))
    assert nats_server.pid is not None
    os.kill(nats_server.pid, signal.SIGKILL)
    answer = await http.post("/api/skills", files={"package": ("p.zip", PACKAGE)})
    assert (answer.status_code, answer.json()["outcome"]) == (201, "installed")


async def test_while_nats_is_away_the_gateway_is_alive_and_not_ready(http: httpx.AsyncClient, bus: Bus) -> None:
    await bus.client.close()
    async with asyncio.timeout(WAIT_S):
        alive, ready = await http.get("/healthz"), await http.get("/readyz")
    assert (alive.status_code, ready.status_code) == (200, 503)
    assert ready.json()["checks"][0] == {"name": "nats", "ready": False, "detail": "not connected", "warning": ""}


async def test_a_run_that_nats_loses_is_answered_at_once_and_not_done_twice(
    http: httpx.AsyncClient, nats_server: NatsServer, serve: Serve
) -> None:
    begun = list[RunSkill]()

    async def run(request: RunSkill) -> SkillRan:
        begun.append(request)
        os.kill(nats_server.pid or 0, signal.SIGKILL)
        raise RequestError(ErrorCode.INTERNAL, "The reply that never arrives.")

    await serve(route(RUN_SKILL, run), route(INSTALL_SKILL, install))
    async with asyncio.timeout(WAIT_S):
        answer = await http.post("/api/skills/calculate/run", json={})
        once_it_is_back = await http.post("/api/skills", files={"package": ("p.zip", b"PK")})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert once_it_is_back.status_code == 201
    assert len(begun) == 1


async def test_a_request_that_nobody_answers_fails_at_once(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(WAIT_S):
        answer = await http.post("/api/tools/search", json={"query": "x"})
    assert (answer.status_code, answer.json()["details"]) == (503, {"service": "retriever"})


async def test_ready_when_every_service_on_the_bus_says_so(http: httpx.AsyncClient, serve: Serve) -> None:
    def healthy(service: str) -> Health:
        return Health(service=service, ready=True)

    async def of_embedder(_: Empty) -> Health:
        return healthy("embedder")

    async def of_indexer(_: Empty) -> Health:
        return healthy("indexer")

    async def of_retriever(_: Empty) -> Health:
        return healthy("retriever")

    async def of_sandbox(_: Empty) -> Health:
        return healthy("sandbox")

    async def of_agent(_: Empty) -> Health:
        return healthy("agent")

    async def of_learner(_: Empty) -> Health:
        return healthy("learner")

    before = await http.get("/readyz")
    await serve(
        route(embedder.HEALTH, of_embedder),
        route(indexer.HEALTH, of_indexer),
        route(retriever.HEALTH, of_retriever),
        route(sandbox.HEALTH, of_sandbox),
        route(agent.HEALTH, of_agent),
        route(learner.HEALTH, of_learner),
    )
    after = await http.get("/readyz")
    assert (before.status_code, after.status_code) == (503, 200)
    assert all(check["ready"] for check in after.json()["checks"])


async def test_large_files_of_a_run_go_in_and_out_through_the_bucket(
    http: httpx.AsyncClient, services: Bus, serve: Serve
) -> None:
    files = await open_object_store(services, RUN_FILES)
    given, report = os.urandom(MIB), os.urandom(2 * MIB)
    said = b"\xff" + b"line\n" * 400_000

    async def run(request: RunSkill) -> SkillRan:
        assert await files.get(request.files["in.bin"].object_name or "", MIB) == given
        await files.put(f"{RUN}/stdout", said)
        await files.put(f"{RUN}/out/report.bin", report)
        return SkillRan(
            run_id=RUN,
            status=RunStatus.OK,
            exit_code=0,
            stdout=content_of(said, object_name=f"{RUN}/stdout"),
            stderr=content_of(b"", inline=b""),
            artifacts=(Artifact(name="report.bin", content=content_of(report, object_name=f"{RUN}/out/report.bin")),),
            duration_ms=1,
            truncated=False,
            isolation="none",
        )

    await serve(route(RUN_SKILL, run))
    body = {"files": {"in.bin": base64.b64encode(given).decode()}}
    reply = (await http.post("/api/skills/calculate/run", json=body)).json()
    artifact = reply["artifacts"][0]
    assert reply["stdout"] == said.decode("utf-8", "replace")
    assert (artifact["content"], artifact["size_bytes"]) == (None, len(report))
    assert (await http.get(artifact["url"])).content == report
    assert not [name for name in await files.names() if name.startswith("in/")]


async def endless_part(size_bytes: int) -> AsyncGenerator[bytes]:
    yield PART.ljust(64 * 1024, b"x")
    for _ in range(64 * 1024, size_bytes, 64 * 1024):
        yield bytes(64 * 1024)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_client_that_sends_too_much_gets_its_413_and_no_broken_connection(
    http: httpx.AsyncClient, declared: bool
) -> None:
    size_bytes = 25 * MIB
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    if declared:
        headers["Content-Length"] = str(size_bytes)
    answer = await http.post("/api/skills", content=endless_part(size_bytes), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_an_upload_without_end_is_answered_and_hung_up_on(gateway: Gateway) -> None:
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        b"POST /api/skills HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n%x\r\n%s\r\n" % (OWNER_KEY.encode(), len(PART), PART)
    )

    async def send_for_ever() -> int:
        sent, chunk = 0, b"10000\r\n" + bytes(0x10000) + b"\r\n"
        try:
            while True:
                writer.write(chunk)
                await writer.drain()
                sent += 0x10000
        except ConnectionError:
            return sent

    async with asyncio.timeout(20):
        sending = asyncio.create_task(send_for_ever())
        head = await reader.readuntil(b"\r\n\r\n")
        sent = await sending
    writer.close()
    assert head.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in head.lower()
    assert sent < 20 * MIB + LINGER_BYTES + 16 * MIB  # the limit, what is discarded, what sockets hold


async def test_a_request_at_work_is_answered_when_the_gateway_stops(bus: Bus, serve: Serve) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(_: SearchTools) -> ToolsFound:
        asked.set()
        await go_on.wait()
        return ToolsFound(results=(), took_ms=1)

    await serve(route(SEARCH_TOOLS, slowly))
    async with asyncio.timeout(WAIT_S), httpx.AsyncClient(headers=OWNER, trust_env=False) as client:
        async with open_gateway(bus, make_settings()) as gateway:
            answering = asyncio.create_task(client.post(f"{gateway.url}/api/tools/search", json={"query": "x"}))
            await asked.wait()
            asyncio.get_running_loop().call_later(0.3, go_on.set)
        answer = await answering
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{gateway.url}/healthz")
    assert answer.status_code == 200


async def test_a_port_that_is_taken_is_named(bus: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=str(port)) as refused:
            async with open_gateway(bus, make_settings(port=port)):
                pass
    assert isinstance(refused.value.__cause__, PortInUseError)


async def test_without_a_key_it_does_not_listen_for_others(bus: Bus) -> None:
    with pytest.raises(StartError, match="SKILLBUS_GATEWAY_OWNER_KEY") as refused:
        async with open_gateway(bus, GatewaySettings(host="0.0.0.0", port=0)):
            pass
    assert isinstance(refused.value.__cause__, OwnerKeyRequiredError)


async def test_with_a_key_it_listens_for_others_only_behind_tls(bus: Bus) -> None:
    with pytest.raises(StartError, match="TLS") as refused:
        async with open_gateway(bus, make_settings(host="0.0.0.0")):
            pass
    assert isinstance(refused.value.__cause__, TlsRequiredError)
    async with open_gateway(bus, make_settings(host="0.0.0.0", tls_in_front=True)) as gateway:
        assert gateway.url.startswith("http://0.0.0.0:")


async def test_without_a_key_it_serves_loopback_only_if_someone_says_so(bus: Bus) -> None:
    with pytest.raises(StartError, match="SKILLBUS_GATEWAY_NO_KEY"):
        async with open_gateway(bus, GatewaySettings(port=0)):
            pass
    async with (
        open_gateway(bus, GatewaySettings(port=0, no_key=True)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, trust_env=False) as client,
    ):
        assert (await client.get("/api/keys")).json() == {"keys": []}


async def test_the_key_can_come_from_a_file(bus: Bus, serve: Serve, tmp_path: Path) -> None:
    await serve(route(SEARCH_TOOLS, find))
    file = tmp_path / "key"
    file.write_text(f"{OWNER_KEY}\n")
    async with (
        open_gateway(bus, GatewaySettings(port=0, owner_key_file=file)) as gateway,
        httpx.AsyncClient(base_url=gateway.url, trust_env=False) as client,
    ):
        without = await client.post("/api/tools/search", json={"query": "x"})
        with_key = await client.post("/api/tools/search", json={"query": "x"}, headers=OWNER)
    assert (without.status_code, with_key.status_code) == (401, 200)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe" * 20])
async def test_a_key_file_that_cannot_be_used_stops_the_start(bus: Bus, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StartError) as refused:
        async with open_gateway(bus, GatewaySettings(port=0, owner_key_file=file)):
            pass
    assert isinstance(refused.value.__cause__, OwnerKeyInvalidError)
