"""What each user of the deployment's bus can do: its work, through the parts that services use."""

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.cli.deployment.certificates import make_authority
from skillbus.common.audit_log.reader import AuditLogReader
from skillbus.common.bus import headers as h
from skillbus.common.bus.connection import BusCredentialsError, confirm_subscriptions, make_tls_context, open_bus
from skillbus.common.bus.dead_letter_store import DeadLetters
from skillbus.common.bus.disk_space import KEEP_FREE_BYTES, MIB, JetStreamRoom
from skillbus.common.bus.events import (
    SUBJECT_HEADER,
    Delivery,
    Subscription,
    consume,
    publish_event,
    subscribe_to_feed,
)
from skillbus.common.bus.jetstream import check_jetstream
from skillbus.common.bus.objects import open_object_store
from skillbus.common.bus.responder import Responder, route
from skillbus.common.runner import StartError, measure_storage
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import (
    LIST_MCP_SERVERS,
    MCP_SERVER_FAILED,
    REFRESH_MCP_SERVER,
    REGISTER_MCP_SERVER,
    REMOVE_MCP_SERVER,
    ListMcpServers,
    McpServerSelector,
    McpServerState,
    RegisterMcpServer,
)
from skillbus.contracts.agent.tool_calls import CALL_TOOL, CallTool
from skillbus.contracts.bus_users import BUS_USERS, JETSTREAM_DOMAIN, Zone
from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import ApiKey, ApiKeyRecord, CreateApiKey
from skillbus.contracts.indexer.audit_log import ListAuditLog
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    REPLAY_DEAD_LETTER,
    DeadLetterSelector,
    ListDeadLetters,
)
from skillbus.contracts.indexer.skills import GET_SKILL, PIN_SKILL, UPLOAD_REJECTED
from skillbus.contracts.learner.index import KNOWLEDGE_INDEXED, KnowledgeIndexed
from skillbus.contracts.learner.learning_jobs import LOG_PARSED, TEST_FINISHED
from skillbus.contracts.message import Message
from skillbus.contracts.resources import EVENTS, LEARNER_INDEXED, LEARNING_FILES, PACKAGES, RUN_FILES, UPLOADS
from skillbus.contracts.sandbox.program_runs import PROGRAM_CALLED
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
from skillbus.embedder.adapters.registry_changes import RegistryAnnouncer, open_registry_watch
from skillbus.gateway.adapters.keys.kv_api_keys import open_api_keys
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.principal import OWNER
from skillbus.retriever.adapters.bus_dialogues import BusDialogues
from skillbus.sandbox.settings import SandboxSettings
from skillbus.sandbox.wiring import open_sandbox

from ...deployed_bus import DeployedBus, run_deployed_bus
from ..agent.catalogue import catalogue_on
from ..sandbox_service.conftest import Catalogue
from ..sandbox_service.fakes import CallingIsolation, HeldIsolation

SERVICES = {endpoint.service for endpoint in ENDPOINTS}


async def answer_with(subject: str, message: Msg) -> None:
    await message.respond(subject.encode())


async def test_every_declared_call_reaches_its_service_and_brings_the_reply_back(bus_of: DeployedBus) -> None:
    """Each service answers all its endpoints; each user calls all that the table lists for it."""
    callers = [user for user in BUS_USERS if user.calls]
    async with AsyncExitStack() as stack:
        names = SERVICES | {user.name for user in callers}
        connections = {name: await stack.enter_async_context(bus_of.connect(name)) for name in names}
        for endpoint in ENDPOINTS:
            service = connections[endpoint.service].client
            await service.subscribe(endpoint.subject, queue=endpoint.service, cb=partial(answer_with, endpoint.subject))
        for service_name in SERVICES:
            await confirm_subscriptions(connections[service_name].client)
        for user in callers:
            asked = [
                connections[user.name].client.request(endpoint.subject, b"{}", timeout=5) for endpoint in user.calls
            ]
            replies = await asyncio.gather(*asked)
            assert [reply.data.decode() for reply in replies] == [endpoint.subject for endpoint in user.calls]
        assert [connection.refused for connection in connections.values() if connection.refused] == []


async def test_a_call_of_a_service_that_does_not_run_fails_at_once(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("gateway") as gateway:
        with pytest.raises(RequestError, match="No sandbox is running"):
            await gateway.caller.call(RUN_SKILL, RunSkill(name="x"))


async def test_discovery_finds_the_services_of_every_zone_once(bus_of: DeployedBus) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(10))
        for name in SERVICES:
            bus = await stack.enter_async_context(bus_of.open_bus(name))
            await Responder(bus.client, name, "0.1.0", bus.metrics).start()
        for asker in ("client", "operator", "gateway"):
            found: list[bytes] = []
            client = (await stack.enter_async_context(bus_of.connect(asker))).client

            async def note(message: Msg, found: list[bytes] = found) -> None:
                found.append(message.data)

            inbox = client.new_inbox()
            await client.subscribe(inbox, cb=note)
            await client.publish("$SRV.PING", b"", reply=inbox)
            while len(found) < len(SERVICES):
                await confirm_subscriptions(client)  # replies arrive before the server's answer to it
            await client.request("$SRV.PING.skillbus-embedder", b"", timeout=5)
            assert len(found) == len(set(found)) == len(SERVICES), asker


async def test_the_indexer_finds_that_every_stream_stores_messages(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("indexer") as indexer:
        assert (await check_jetstream(indexer.client, indexer.jetstream_api)).ready


async def test_services_of_every_zone_know_how_much_room_jetstream_has(bus_of: DeployedBus, tmp_path: Path) -> None:
    limit = 12 * 1024 * MIB
    for name in ("indexer", "sandbox", "agent"):
        settings = bus_of.settings(name).model_copy(update={"disk": tmp_path})
        async with bus_of.open_bus(name) as bus, measure_storage(bus, settings) as measured:
            assert measured.disk is not None
            refusal = partial(measured.disk.explain_refusal, limit)

            async def explain(refusal: Callable[[], str | None] = refusal) -> str:
                return refusal() or ""

            reason = await eventually(explain, bool)
            assert "12288 MiB" in reason or "the disk of NATS" in reason
    lost = settings.model_copy(update={"disk": tmp_path / "none"})
    with pytest.raises(StartError, match="SKILLBUS_NATS_DISK"):
        async with measure_storage(bus, lost):
            pass
    async with bus_of.open_bus("indexer") as indexer:
        room = JetStreamRoom(indexer.client, indexer.jetstream_api)
        await room.measure()
        just_fits = room.read_free() - KEEP_FREE_BYTES
        assert room.explain_refusal(just_fits) is None
        await (await open_object_store(indexer, PACKAGES)).put("more", os.urandom(MIB))
        await room.measure()
        with pytest.raises(RequestError, match="JetStream's file limit of 12288 MiB") as full:
            room.check(just_fits)
        assert full.value.code is ErrorCode.STORAGE_FULL


async def test_callers_publish_events_that_start_learning_and_the_gateway_stores_files_that_the_learner_deletes(
    bus_of: DeployedBus,
) -> None:
    async with bus_of.connect("client") as client:
        for event in (LOG_PARSED, TEST_FINISHED):
            stored = await client.client.request(event.subject("task-1"), b'{"text": "a"}', timeout=5)
            assert json.loads(stored.data)["stream"] == EVENTS.name
        assert client.refused == []
    async with bus_of.open_bus("gateway") as gateway, bus_of.open_bus("learner") as learner:
        kept = await (await open_object_store(gateway, LEARNING_FILES)).put_pieces(
            "default/a", _iterate(b"one", b"two")
        )
        files = await open_object_store(learner, LEARNING_FILES)
        assert (kept.size_bytes, await files.get("default/a", 10)) == (6, b"onetwo")
        await files.delete("default/a")


async def _iterate(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_the_indexer_replays_and_drops_dead_letters_for_the_gateway(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("indexer") as indexer, bus_of.open_bus("gateway") as gateway:
        letters = DeadLetters(indexer)
        responder = Responder(indexer.client, "indexer", "0.1.0", indexer.metrics)
        await responder.start(route(REPLAY_DEAD_LETTER, letters.replay), route(DROP_DEAD_LETTER, letters.drop))
        subject = "skillbus.evt.knowledge.used.default"
        sequences = []
        for _ in range(2):
            stored = await indexer.jetstream.publish(
                "skillbus.dlq.SKILLBUS_EVT.learner-uses", b"{}", headers={SUBJECT_HEADER: subject}
            )
            sequences.append(stored.seq)
        replayed = await gateway.caller.call(REPLAY_DEAD_LETTER, DeadLetterSelector(sequence=sequences[0]))
        await gateway.caller.call(DROP_DEAD_LETTER, DeadLetterSelector(sequence=sequences[1]))
        left = (await letters.list_page(ListDeadLetters())).total
        await responder.drain()
    assert replayed.subject == subject
    assert left == 0


async def test_the_learner_consumes_and_hears_what_the_index_has(bus_of: DeployedBus) -> None:
    consumed: asyncio.Queue[str] = asyncio.Queue()

    async def handle(delivery: Delivery) -> None:
        consumed.put_nowait(delivery.subject)

    async with bus_of.open_bus("indexer") as indexer, bus_of.open_bus("learner") as learner, asyncio.timeout(10):
        heard = await learner.client.subscribe(KNOWLEDGE_INDEXED.pattern)
        async with consume(learner, [Subscription(LEARNER_INDEXED, handle)]):
            await publish_event(
                indexer,
                KNOWLEDGE_INDEXED,
                KnowledgeIndexed(items=()),
                identity="x",
                message_id=os.urandom(8).hex(),
                project="default",
            )
            assert await consumed.get() == KNOWLEDGE_INDEXED.subject("x")
            assert (await heard.next_msg(timeout=5)).subject == KNOWLEDGE_INDEXED.subject("x")


async def test_embedders_tell_each_other_of_changes(bus_of: DeployedBus) -> None:
    async with (
        bus_of.open_bus("embedder") as one,
        bus_of.open_bus("embedder") as other,
        open_registry_watch(other) as watch,
    ):
        await watch.wait_until_listening()
        before = watch.position
        await RegistryAnnouncer(one).announce_change()
        await eventually(lambda: asyncio.sleep(0, watch.position), lambda position: position > before)


async def test_replicas_of_the_retriever_share_what_a_session_mentioned(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("retriever") as one, bus_of.open_bus("retriever") as other, asyncio.timeout(10):
        writer, reader = BusDialogues(one), BusDialogues(other)
        for devices in (("lamp",), ("fan", "door")):
            await writer.save_mentioned("default", "home", "a.*.>", devices)
            assert tuple(await reader.load_mentioned("default", "home", "a.*.>")) == devices
        for project, home, session in (
            ("other", "home", "a.*.>"),
            ("default", "cabin", "a.*.>"),
            ("default", "home", "a"),
        ):
            assert tuple(await reader.load_mentioned(project, home, session)) == ()


async def test_the_sandbox_reads_packages_and_keeps_files_of_runs_for_the_gateway(bus_of: DeployedBus) -> None:
    package, artifact = os.urandom(300_000), os.urandom(300_000)
    async with (
        bus_of.open_bus("indexer") as indexer,
        bus_of.open_bus("sandbox") as sandbox,
        bus_of.open_bus("gateway") as gateway,
    ):
        await (await open_object_store(indexer, PACKAGES)).put("a.zip", package)
        read = await (await open_object_store(sandbox, PACKAGES)).get("a.zip", 1_000_000)
        for content in (b"first", artifact):  # the second replaces the first
            await (await open_object_store(sandbox, RUN_FILES)).put("run/out/a", content)
        fetched = await (await open_object_store(gateway, RUN_FILES)).get("run/out/a", 1_000_000)
        again = await (await open_object_store(sandbox, RUN_FILES)).get("run/out/a", 1_000_000)
        await (await open_object_store(gateway, RUN_FILES)).delete("run/out/a")
        await (await open_object_store(gateway, PACKAGES)).put("incoming/b.zip", package)
        incoming = await (await open_object_store(indexer, PACKAGES)).get("incoming/b.zip", 1_000_000)
    assert (read, fetched, again, incoming) == (package, artifact, artifact, package)


async def test_the_sandbox_tells_of_runs_remembers_them_and_ends_them(bus_of: DeployedBus, tmp_path: Path) -> None:
    request = RunSkill(name="say", run_id="f" * 32, stream=True)
    run = RunSelector(run_id="f" * 32)
    async with AsyncExitStack() as stack:
        indexer = await stack.enter_async_context(bus_of.open_bus("indexer"))
        catalogue = Catalogue(await open_object_store(indexer, PACKAGES))
        await catalogue.put("say", "said")
        responder = Responder(indexer.client, "indexer", "0.1.0", indexer.metrics)
        await responder.start(route(GET_SKILL, catalogue.get))
        sandbox = await stack.enter_async_context(bus_of.open_bus("sandbox"))
        gateway = await stack.enter_async_context(bus_of.open_bus("gateway"))
        client = await stack.enter_async_context(bus_of.open_bus("client"))
        await stack.enter_async_context(asyncio.timeout(20))
        await stack.enter_async_context(
            open_sandbox(sandbox, SandboxSettings(data=tmp_path / "sandbox"), HeldIsolation())
        )
        followed = await stack.enter_async_context(subscribe_to_feed(client.client, RUN_PRINTED, run.run_id))
        async with subscribe_to_feed(gateway.client, RUN_PRINTED, run.run_id) as events:
            await confirm_subscriptions(client.client)
            running = asyncio.create_task(gateway.caller.call(RUN_SKILL, request))
            told = [(await anext(events)).kind, (await anext(events)).kind]
            assert (await gateway.caller.call(CANCEL_RUN, run)).ending
            told.append((await anext(events)).kind)
        assert (await running).status is RunStatus.CANCELLED
        assert [(await anext(followed)).kind for _ in told] == told
        assert (await gateway.caller.call(GET_RUN, run)).state is RunState.CANCELLED
        assert len((await gateway.caller.call(LIST_RUNS, ListRuns())).runs) == 1
        await responder.drain()
    assert told == [RunEventKind.BEGUN, RunEventKind.OUTPUT, RunEventKind.ENDED]


async def test_a_program_in_the_sandbox_calls_a_tool_of_the_agent_while_it_runs(
    bus_of: DeployedBus, tmp_path: Path
) -> None:
    request = {"method": "call_tool", "id": "builtin:calculate", "arguments": {"expression": "6 * 7"}}
    isolation = CallingIsolation(json.dumps(request).encode())
    async with AsyncExitStack() as stack:
        indexer, agent, sandbox, client = [
            await stack.enter_async_context(bus_of.open_bus(name)) for name in ("indexer", "agent", "sandbox", "client")
        ]
        await stack.enter_async_context(catalogue_on(indexer))
        await stack.enter_async_context(open_agent(agent, AgentSettings(data=tmp_path / "agent")))
        await stack.enter_async_context(open_sandbox(sandbox, SandboxSettings(data=tmp_path / "sandbox"), isolation))
        call = CallTool(id="builtin:run_code", arguments={"code": "1"}, run_id="e" * 32, stream=True)
        calls = await stack.enter_async_context(subscribe_to_feed(client.client, PROGRAM_CALLED, "e" * 32))
        await confirm_subscriptions(client.client)
        called = await client.caller.call(CALL_TOOL, call)
        assert '"result":"42"' in called.text
        assert (await anext(calls)).id == "builtin:calculate"
        assert isolation.tools is not None
        with pytest.raises(RequestError, match="No agent answers"):
            await isolation.tools.ask(isolation.request)


async def test_the_agent_keeps_servers_and_tells_of_them(bus_of: DeployedBus, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        indexer, agent, gateway = [
            await stack.enter_async_context(bus_of.open_bus(name)) for name in ("indexer", "agent", "gateway")
        ]
        await stack.enter_async_context(catalogue_on(indexer))
        told = await indexer.jetstream.subscribe(MCP_SERVER_FAILED.pattern)
        async with open_agent(agent, AgentSettings(data=tmp_path)):
            asked = RegisterMcpServer(name="nobody", url="http://127.0.0.1:9/mcp", timeout_s=1)
            assert (await gateway.caller.call(REGISTER_MCP_SERVER, asked)).state is McpServerState.FAILED
            assert len((await gateway.caller.call(LIST_MCP_SERVERS, ListMcpServers())).servers) == 1
            await told.next_msg(timeout=5)
            await gateway.caller.call(REMOVE_MCP_SERVER, McpServerSelector(name="nobody"))
            assert (await gateway.caller.call(LIST_MCP_SERVERS, ListMcpServers())).servers == ()


async def test_gateways_keep_api_keys_and_refuse_a_revoked_one_in_each(bus_of: DeployedBus) -> None:
    rings = KeyRing(), KeyRing()
    async with (
        bus_of.open_bus("gateway") as bus,
        bus_of.open_bus("gateway") as other_bus,
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
    async with bus_of.open_bus("gateway") as later, open_api_keys(later, ring := KeyRing()):
        assert (record := ring.find_record(made.id)) is not None
        assert record.revoked_at


async def test_replicas_of_the_agent_hear_each_others_writes(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("agent") as one, bus_of.open_bus("agent") as other, asyncio.timeout(10):
        heard = await other.client.subscribe("$KV.mcp-servers.>")
        await confirm_subscriptions(other.client)
        await one.jetstream.publish("$KV.mcp-servers.default.x", b"{}")
        assert (await heard.next_msg(timeout=5)).subject == "$KV.mcp-servers.default.x"


async def test_a_client_uploads_and_hears_what_became_of_it(bus_of: DeployedBus) -> None:
    async with bus_of.open_bus("indexer") as indexer, bus_of.connect("client") as client, asyncio.timeout(10):
        heard = await client.client.subscribe(UPLOAD_REJECTED.pattern)
        await confirm_subscriptions(client.client)
        store = await client.client.jetstream(domain=JETSTREAM_DOMAIN).object_store("skills")
        for content in (b"not a zip", b"another"):
            await store.put("demo.zip", content)
        assert (await store.get_info("demo.zip")).size == 7
        record = f"$O.skills.M.{base64.urlsafe_b64encode(b'demo.zip').decode()}"
        direct = f"$JS.{JETSTREAM_DOMAIN}.API.DIRECT.GET.OBJ_skills.{record}"  # as the client library of Go asks
        assert json.loads((await client.client.request(direct, b"", timeout=5)).data)["size"] == 7
        uploads = await open_object_store(indexer, UPLOADS)
        assert await uploads.get("demo.zip", 100) == b"another"
        await indexer.jetstream.publish(UPLOAD_REJECTED.subject("demo"), b"{}")
        assert (await heard.next_msg(timeout=5)).data == b"{}"
    assert client.refused == []


async def test_services_work_over_tls_and_trust_no_other_authority(tmp_path: Path) -> None:
    with run_deployed_bus(tmp_path / "bus", tls=True) as bus:
        for user in BUS_USERS:
            async with bus.open_bus(user.name) as opened:
                await confirm_subscriptions(opened.client)
        (tmp_path / "other.pem").write_bytes(make_authority().certificate)
        other = make_tls_context(tmp_path / "other.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client().connect(bus.url, tls=other, tls_handshake_first=True, allow_reconnect=False)


@pytest.mark.parametrize("content", [b"", b"SUAAAA", b"\xff", b"hunter2-is-no-seed"])
async def test_a_damaged_seed_is_named_and_not_shown(bus_of: DeployedBus, tmp_path: Path, content: bytes) -> None:
    damaged = DeployedBus(bus_of.url, tmp_path)
    (tmp_path / "nats-agent.seed").write_bytes(content)
    with pytest.raises(BusCredentialsError, match="SKILLBUS_NATS_SEED_FILE") as refused:
        async with damaged.open_bus("agent"):
            pass
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_a_damaged_certificate_is_named(bus_of: DeployedBus, tmp_path: Path, content: bytes | None) -> None:
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_bytes(content)
    settings = bus_of.settings("agent").model_copy(update={"tls_ca_file": ca_file})
    with pytest.raises(BusCredentialsError, match="SKILLBUS_NATS_TLS_CA_FILE"):
        async with open_bus(settings, "test", CollectorRegistry()):
            pass


def test_users_outside_the_core_zone_name_the_domain_of_jetstream(bus_of: DeployedBus) -> None:
    for user in BUS_USERS:
        expected = None if user.zone is Zone.CORE else JETSTREAM_DOMAIN
        assert bus_of.settings(user.name).jetstream_domain == expected


async def test_acts_are_recorded_in_every_zone_and_only_the_gateway_speaks_for_its_callers(bus_of: DeployedBus) -> None:
    """The server overwrites the header that names the account of a request from another one."""
    gateway_origin = {h.DOOR: "http", h.ACTOR: "owner", h.ADDRESS: "192.0.2.1"}
    forged = {**gateway_origin, h.REQUEST_INFO: '{"acc":"CORE"}'}
    body = b'{"name": "audited", "pinned": true}'
    requests = (
        (PIN_SKILL, "gateway", gateway_origin),
        (PIN_SKILL, "client", forged),
        (REFRESH_MCP_SERVER, "gateway", gateway_origin),
        (RUN_SKILL, "gateway", gateway_origin),
        (RUN_SKILL, "client", forged),
    )

    async def refuse(_: Message) -> Message:
        raise RequestError(ErrorCode.CONFLICT, "Not today.")

    async with AsyncExitStack() as stack:
        for endpoint in (PIN_SKILL, REFRESH_MCP_SERVER, RUN_SKILL):
            bus = await stack.enter_async_context(bus_of.open_bus(endpoint.service))
            health = ServiceHealth(endpoint.service)
            await stack.enter_async_context(
                serve_routes(bus, endpoint.service, [route(endpoint, refuse)], health, lambda _: None)
            )
        for asked, user, headers in requests:
            connection = await stack.enter_async_context(bus_of.connect(user))
            await connection.client.request(asked.subject, body, timeout=5, headers=headers)
        indexer = await stack.enter_async_context(bus_of.open_bus("indexer"))
        facts = (await AuditLogReader(indexer).list_page(ListAuditLog(subject="audited"))).facts[::-1]
    assert [(fact.act, fact.service, fact.door, fact.account, fact.address) for fact in facts] == [
        ("pin_skill", "indexer", "http", None, "192.0.2.1"),
        ("pin_skill", "indexer", "bus", Zone.CLIENTS, None),
        ("refresh_mcp_server", "agent", "http", Zone.CORE, "192.0.2.1"),
        ("run_skill", "sandbox", "http", Zone.CORE, "192.0.2.1"),
        ("run_skill", "sandbox", "bus", Zone.CLIENTS, None),
    ]
