"""What each user of deploy/nats.conf may do, on a real nats-server that reads it. No container engine is needed."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus.connection import Bus, BusSettings, confirm_subscriptions, open_bus
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.bus.events import SUBJECT_HEADER, subscribe_to_feed
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.provision import provision
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import (
    LIST_MCP_SERVERS,
    MCP_SERVER_FAILED,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    ListMcpServers,
    McpServerSelector,
    McpServerState,
    RegisterMcpServer,
)
from skillbus.contracts.gateway.api_keys import ApiKey, ApiKeyRecord, CreateApiKey
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    REPLAY_DEAD_LETTER,
    DeadLetterSelector,
    ListDeadLetters,
)
from skillbus.contracts.indexer.skills import GET_SKILL
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.contracts.sandbox.run_history import (
    CANCEL_RUN,
    GET_RUN,
    LIST_RUNS,
    RUN_PRINTED,
    ListRuns,
    RunEventKind,
    RunSelector,
    RunState,
)
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill, RunStatus
from skillbus.gateway.adapters.kv_api_keys import open_api_keys
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.principal import OWNER
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox
from skillbus.standalone.nats_server import find_nats_binary

from ..integration.agent.catalogue import catalogue_on
from ..integration.sandbox_service.conftest import Catalogue
from ..integration.sandbox_service.fakes import HeldIsolation
from .compose import ROOT, free_port

USERS = ("operator", "client", "embedder", "indexer", "retriever", "learner", "sandbox", "agent", "gateway")
PASSWORD = "12e4-secret"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with the deployment's configuration; only its ports and its folder are others."""
    port = free_port()
    config = (ROOT / "deploy" / "nats.conf").read_text()
    for there, here in {
        '"0.0.0.0:4222"': f'"127.0.0.1:{port}"',
        '"0.0.0.0:8222"': '"127.0.0.1:-1"',
        '"/data/jetstream"': f'"{tmp_path}"',
    }.items():
        assert there in config
        config = config.replace(there, here)
    path = tmp_path / "nats.conf"
    path.write_text(config)
    passwords = {f"NATS_{user.upper()}_PASSWORD": f'"{PASSWORD}-{user}"' for user in USERS}
    with tmp_path.joinpath("log").open("wb") as log:
        server = subprocess.Popen(
            [find_nats_binary(), "--config", str(path)], env={**os.environ, **passwords}, stdout=log, stderr=log
        )
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=10)


@dataclass
class Connected:
    """A user's connection, and what the server refused it."""

    client: Client
    refused: list[str] = field(default_factory=list)


@asynccontextmanager
async def connected(url: str, user: str | None, password: str | None = None) -> AsyncGenerator[Connected]:
    client = Client()
    connection = Connected(client)
    password = password or (f"{PASSWORD}-{user}" if user else None)

    async def on_error(error: Exception) -> None:
        connection.refused.append(str(error).lower())

    try:
        await client.connect(
            url,
            user=user,
            password=password,
            inbox_prefix=inbox_of(user or "client"),
            error_cb=on_error,
            allow_reconnect=False,
        )
        yield connection
    finally:
        await client.close()


def inbox_of(user: str) -> str:
    return "_INBOX" if user in ("client", "operator") else f"_INBOX_{user}"


@asynccontextmanager
async def bus_of(url: str, user: str) -> AsyncGenerator[Bus]:
    settings = BusSettings(url=url, user=user, password=SecretStr(f"{PASSWORD}-{user}"), inbox_prefix=inbox_of(user))
    async with open_bus(settings, f"test-{user}", CollectorRegistry()) as bus:
        yield bus


@pytest.fixture
async def indexer(url: str) -> AsyncGenerator[Bus]:
    """The indexer's connection, on which everything is provisioned: that it may is part of the tests."""

    async def listening() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=1):
                return True
        except OSError:
            return False

    await eventually(listening, bool)
    async with bus_of(url, "indexer") as bus:
        await provision(bus.jetstream)
        yield bus


FORBIDDEN = {
    "sandbox": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.dlq.SKILLBUS_EVT.indexer",
        "$O.packages.C.x",
        "$O.packages.M.x",
        "$O.skills.M.x",
        "$KV.catalogue.default.skill.x",
        "$JS.API.STREAM.CREATE.x",
        "$JS.API.STREAM.PURGE.OBJ_packages",
        "$JS.API.STREAM.DELETE.KV_catalogue",
        "$JS.API.STREAM.PURGE.SKILLBUS_RUNS",
        "$JS.API.STREAM.MSG.GET.KV_catalogue",
        "skillbus.v1.indexer.install_skill",
        "skillbus.v1.sandbox.run_skill",
        "_INBOX_gateway.of.another",
    ],
    "embedder": ["skillbus.evt.skill.installed.x", "skillbus.v1.indexer.get_skill", "$JS.API.INFO"],
    "retriever": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.sandbox.run_skill",
        "skillbus.v1.learner.create_knowledge",
        "skillbus.evt.knowledge.indexed.x",
        "$KV.catalogue.x",
    ],
    "learner": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.evt.knowledge.indexed.x",
        "skillbus.v1.embedder.embed_texts",
        "$KV.catalogue.x",
        "$JS.API.CONSUMER.MSG.NEXT.SKILLBUS_EVT.indexer",
        "$JS.API.STREAM.PURGE.SKILLBUS_EVT",
    ],
    "agent": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.indexer.install_skill",
        "skillbus.v1.indexer.accept_tool",
        "skillbus.v1.sandbox.run_skill",
        "$KV.catalogue.default.tool.x",
        "$JS.API.STREAM.DELETE.KV_mcp-servers",
    ],
    "gateway": [
        "skillbus.run.x",
        "skillbus.ctl.run.cancel.x",
        "skillbus.feed.run.printed.x",
        "$KV.mcp-servers.default.x",
        "skillbus.evt.skill.installed.x",
        "$KV.catalogue.default.skill.x",
        "$JS.API.STREAM.DELETE.OBJ_runs",
    ],
    "client": [
        "$KV.api-keys.key.x",
        "skillbus.run.x",
        "skillbus.ctl.run.cancel.x",
        "skillbus.evt.skill.installed.x",
        "$O.packages.M.x",
        "$JS.API.STREAM.DELETE.OBJ_skills",
    ],
}


@pytest.mark.parametrize("user", FORBIDDEN)
@pytest.mark.usefixtures("indexer")
async def test_a_user_cannot_publish_what_is_not_its_business(url: str, user: str) -> None:
    async with connected(url, user) as connection:

        async def allowed() -> list[str]:
            return [name for name in FORBIDDEN[user] if not any(name.lower() in said for said in connection.refused)]

        for subject in FORBIDDEN[user]:
            await connection.client.publish(subject, b"x")
        assert await eventually(allowed, lambda names: not names) == []


@pytest.mark.parametrize("user", ["embedder", "retriever", "learner", "sandbox", "agent", "gateway", "client"])
@pytest.mark.usefixtures("indexer")
async def test_a_user_cannot_hear_the_replies_to_a_service(url: str, user: str) -> None:
    others = [other for other in ("indexer", "gateway", "retriever") if other != user]
    async with connected(url, user) as connection:
        for other in others:
            await connection.client.subscribe(f"_INBOX_{other}.>")
        await connection.client.flush()
        await eventually(
            lambda: asyncio.sleep(0, connection.refused),
            lambda refused: all(any(f"_inbox_{other}" in said for said in refused) for other in others),
        )


@pytest.mark.parametrize("user", ["embedder", "retriever", "learner", "sandbox", "agent", "gateway", "client"])
@pytest.mark.usefixtures("indexer")
async def test_a_service_cannot_answer_in_the_place_of_another(url: str, user: str) -> None:
    async with connected(url, user) as connection:
        await connection.client.subscribe("skillbus.v1.indexer.get_skill", queue="indexer")
        await connection.client.flush()
        await eventually(lambda: asyncio.sleep(0, connection.refused), bool)
    assert "skillbus.v1.indexer.get_skill" in connection.refused[0]


@pytest.mark.usefixtures("indexer")
async def test_a_service_answers_what_it_is_asked_once(url: str) -> None:
    async with connected(url, "embedder") as embedder, connected(url, "gateway") as gateway:

        async def answer(message: Msg) -> None:
            await message.respond(b"1")
            await embedder.client.publish(message.reply, b"2")

        await embedder.client.subscribe("skillbus.v1.embedder.embed_texts", queue="embedder", cb=answer)
        await confirm_subscriptions(embedder.client)
        reply = await gateway.client.request("skillbus.v1.embedder.embed_texts", b"x", timeout=5)
        await eventually(lambda: asyncio.sleep(0, embedder.refused), bool)

    assert reply.data == b"1"
    assert "_inbox" in embedder.refused[0]


async def test_the_indexer_replays_and_drops_dead_letters_for_the_gateway(url: str, indexer: Bus) -> None:
    letters = DeadLetters(indexer)
    responder = Responder(indexer.client, "indexer", "0.1.0", indexer.metrics)
    await responder.start(route(REPLAY_DEAD_LETTER, letters.replay), route(DROP_DEAD_LETTER, letters.drop))
    subject = "skillbus.evt.knowledge.used.default"
    for _ in range(2):
        await indexer.jetstream.publish(
            "skillbus.dlq.SKILLBUS_EVT.learner-uses", b"{}", headers={SUBJECT_HEADER: subject}
        )
    async with bus_of(url, "gateway") as gateway:
        replayed = await gateway.caller.call(REPLAY_DEAD_LETTER, DeadLetterSelector(sequence=1))
        await gateway.caller.call(DROP_DEAD_LETTER, DeadLetterSelector(sequence=2))
    await responder.drain()
    assert replayed.subject == subject
    assert (await letters.list_page(ListDeadLetters())).total == 0


@pytest.mark.usefixtures("indexer")
async def test_gateways_keep_api_keys_and_refuse_a_revoked_one_in_each(url: str) -> None:
    rings = KeyRing(), KeyRing()
    async with (
        bus_of(url, "gateway") as bus,
        bus_of(url, "gateway") as other_bus,
        open_api_keys(bus, rings[0]) as keys,
        open_api_keys(other_bus, rings[1]) as others,
    ):
        registry = KeyRegistry(keys)
        made = await registry.create_key(CreateApiKey(label="x", projects=("default",)), OWNER)
        others.note_use(made.id)

        async def read_listed() -> ApiKey:
            (listed,) = (await registry.list_keys(OWNER)).keys
            return listed

        await eventually(read_listed, lambda key: key.last_used_at)
        await registry.revoke_key(made.id, OWNER)

        async def read_heard() -> ApiKeyRecord | None:
            return rings[1].find_record(made.id)

        assert await eventually(read_heard, lambda record: record is not None and record.revoked_at)
        assert (await read_listed()).revoked_at is not None


async def test_the_sandbox_reads_packages_and_keeps_files_of_runs_for_the_gateway(url: str, indexer: Bus) -> None:
    package, artifact = os.urandom(300_000), os.urandom(300_000)
    await (await open_object_store(indexer, PACKAGES)).put("a.zip", package)

    async with bus_of(url, "sandbox") as sandbox, bus_of(url, "gateway") as gateway:
        read = await (await open_object_store(sandbox, PACKAGES)).get("a.zip", 1_000_000)
        await (await open_object_store(sandbox, RUN_FILES)).put("run/out/a", artifact)
        fetched = await (await open_object_store(gateway, RUN_FILES)).get("run/out/a", 1_000_000)
        await (await open_object_store(gateway, RUN_FILES)).delete("run/out/a")
        await (await open_object_store(gateway, PACKAGES)).put("incoming/b.zip", package)

    assert (read, fetched) == (package, artifact)
    assert await (await open_object_store(indexer, PACKAGES)).get("incoming/b.zip", 1_000_000) == package


async def test_the_sandbox_tells_of_runs_remembers_them_and_ends_them(url: str, indexer: Bus, tmp_path: Path) -> None:
    catalogue = Catalogue(await open_object_store(indexer, PACKAGES))
    await catalogue.put("say", "said")
    responder = Responder(indexer.client, "indexer", "0.1.0", indexer.metrics)
    await responder.start(route(GET_SKILL, catalogue.get))
    request = RunSkill(name="say", run_id="f" * 32, stream=True)
    run = RunSelector(run_id="f" * 32)
    async with (
        bus_of(url, "sandbox") as sandbox,
        bus_of(url, "gateway") as gateway,
        asyncio.timeout(10),
        open_sandbox(sandbox, SandboxSettings(data=tmp_path / "sandbox"), HeldIsolation()),
    ):
        async with subscribe_to_feed(gateway.client, RUN_PRINTED, run.run_id) as events:
            running = asyncio.create_task(gateway.caller.call(RUN_SKILL, request))
            told = [(await anext(events)).kind, (await anext(events)).kind]
            assert (await gateway.caller.call(CANCEL_RUN, run)).ending
            told.append((await anext(events)).kind)
        assert (await running).status is RunStatus.CANCELLED
        assert (await gateway.caller.call(GET_RUN, run)).state is RunState.CANCELLED
        assert len((await gateway.caller.call(LIST_RUNS, ListRuns())).runs) == 1
    await responder.drain()
    assert told == [RunEventKind.BEGUN, RunEventKind.OUTPUT, RunEventKind.ENDED]


async def test_the_agent_keeps_servers_and_tells_of_them(url: str, indexer: Bus, tmp_path: Path) -> None:
    async with catalogue_on(indexer), bus_of(url, "agent") as agent, bus_of(url, "gateway") as gateway:
        told = await indexer.jetstream.subscribe(MCP_SERVER_FAILED.pattern)
        async with open_agent(agent, AgentSettings(data=tmp_path)):
            asked = RegisterMcpServer(name="nobody", url="http://127.0.0.1:9/mcp", timeout_s=1)
            assert (await gateway.caller.call(REGISTER_MCP_SERVER, asked)).state is McpServerState.FAILED
            assert len((await gateway.caller.call(LIST_MCP_SERVERS, ListMcpServers())).servers) == 1
            await told.next_msg(timeout=5)
            await gateway.caller.call(REMOVE_MCP_SERVER, McpServerSelector(name="nobody"))
            assert (await gateway.caller.call(LIST_MCP_SERVERS, ListMcpServers())).servers == ()


@pytest.mark.usefixtures("indexer")
async def test_a_client_uploads_to_the_bucket_of_uploads(url: str) -> None:
    async with connected(url, "client") as client:
        store = await client.client.jetstream().object_store("skills")
        await store.put("demo.zip", b"not a zip")
        assert (await store.get_info("demo.zip")).size == 9
    assert client.refused == []


@pytest.mark.usefixtures("indexer")
@pytest.mark.parametrize("user", USERS)
async def test_nobody_comes_in_with_another_password(url: str, user: str) -> None:
    with pytest.raises(NatsError):
        async with connected(url, user, password=PASSWORD):
            pass


@pytest.mark.usefixtures("indexer")
async def test_messages_are_limited_to_one_mebibyte(url: str) -> None:
    async with connected(url, "operator") as operator:
        assert operator.client.max_payload == 1024 * 1024


@pytest.mark.usefixtures("indexer")
async def test_nobody_comes_in_without_a_name(url: str) -> None:
    with pytest.raises(NatsError):
        async with connected(url, None):
            pass
