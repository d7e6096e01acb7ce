"""What a user of the deployment's bus cannot do. Every list here is refused by a real nats-server."""

import re
from collections.abc import AsyncGenerator, Iterator

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.common.testing import eventually
from skillbus.contracts.audit_log import make_audit_pattern
from skillbus.contracts.bus_users import BUS_USERS, Zone
from skillbus.contracts.catalogue import ENDPOINTS, EVENTS, FEEDS, WORK_LINES
from skillbus.contracts.documents.nats_accounts import list_crossings, make_inbox_prefix
from skillbus.contracts.resources import KEY_VALUE_BUCKETS, OBJECT_BUCKETS

from ...deployed_bus import (
    CONFIG,
    USERS,
    DeployedBus,
    list_jetstream_requests,
    matches,
    may_publish,
    run_deployed_bus,
)

LIMITED = [user.name for user in BUS_USERS if not user.unrestricted]
OUTSIDE = [user.name for user in BUS_USERS if user.zone is not Zone.CORE]

FORBIDDEN = {
    "sandbox": [
        "skillbus.audit.gateway.create_api_key",
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.dlq.SKILLBUS_EVT.indexer",
        "$O.packages.C.x",
        "$O.packages.M.x",
        "$O.skills.M.x",
        "$KV.catalogue.default.skill.x",
        "$KV.mcp-servers.default.x",
        "$JS.skillbus.API.STREAM.PURGE.OBJ_packages",
        "$JS.skillbus.API.STREAM.MSG.GET.KV_catalogue",
        "$JS.skillbus.API.CONSUMER.CREATE.OBJ_runs",
        "$JS.API.CONSUMER.CREATE.SKILLBUS_RUNS",
        "skillbus.v1.indexer.install_skill",
        "skillbus.v1.sandbox.run_skill",
        "skillbus.v1.agent.call_tool",
        "skillbus.v1.agent.register_mcp_server",
        "_INBOX_gateway.of.another",
        "$SYS.REQ.SERVER.PING",
    ],
    "embedder": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.indexer.get_skill",
        "$JS.API.STREAM.NAMES",
    ],
    "retriever": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.sandbox.run_skill",
        "skillbus.v1.learner.create_knowledge",
        "skillbus.evt.knowledge.indexed.x",
        "$KV.catalogue.x",
        "$KV.homes.x",
    ],
    "learner": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.evt.knowledge.indexed.x",
        "skillbus.v1.embedder.embed_texts",
        "$KV.catalogue.x",
        "$KV.dialogues.x",
        "$JS.API.CONSUMER.CREATE.SKILLBUS_EVT.learner-uses",
        "$JS.API.CONSUMER.MSG.NEXT.SKILLBUS_EVT.indexer",
        "$JS.API.STREAM.PURGE.SKILLBUS_EVT",
    ],
    "indexer": [
        "$KV.api-keys.key.x",
        "skillbus.v1.agent.register_mcp_server",
        "skillbus.v1.sandbox.run_skill",
        "skillbus.run.x",
    ],
    "agent": [
        "$KV.api-keys.key.x",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.indexer.install_skill",
        "skillbus.v1.indexer.accept_tool",
        "skillbus.ctl.run.cancel.x",
        "skillbus.ctl.program.call.x",
        "skillbus.run.x",
        "$KV.catalogue.default.tool.x",
        "$JS.skillbus.API.CONSUMER.CREATE.KV_mcp-servers",
        "$JS.skillbus.API.STREAM.DELETE.KV_mcp-servers",
    ],
    "gateway": [
        "skillbus.run.x",
        "skillbus.ctl.run.cancel.x",
        "skillbus.ctl.program.call.x",
        "skillbus.v1.sandbox.run_program",
        "skillbus.feed.run.printed.x",
        "$KV.mcp-servers.default.x",
        "skillbus.evt.skill.installed.x",
        "$KV.catalogue.default.skill.x",
        "$JS.API.CONSUMER.CREATE.OBJ_runs",
        "$JS.API.STREAM.DELETE.OBJ_runs",
    ],
    "client": [
        "$KV.api-keys.key.x",
        "$JS.skillbus.API.STREAM.MSG.GET.KV_api-keys",
        "skillbus.run.x",
        "skillbus.ctl.run.cancel.x",
        "skillbus.ctl.program.call.x",
        "skillbus.v1.sandbox.run_program",
        "skillbus.evt.skill.installed.x",
        "skillbus.v1.agent.register_mcp_server",
        "skillbus.v1.embedder.create_provider",
        "skillbus.v1.indexer.approve_network",
        "skillbus.v1.indexer.put_tools",
        "skillbus.v1.learner.read_knowledge",
        "$O.packages.M.x",
        "$JS.skillbus.API.STREAM.DELETE.OBJ_skills",
        "$JS.skillbus.API.CONSUMER.CREATE.OBJ_skills",
    ],
}
"""Written by hand: the rest of these tests takes its lists from the table of users, and cannot see what that allows."""


def list_publications() -> Iterator[str]:
    """A subject of everything that anybody publishes, and every request to JetStream."""
    yield from (endpoint.subject for endpoint in ENDPOINTS)
    yield from (event.subject("x") for event in EVENTS)
    yield from (feed.subject("x") for feed in FEEDS)
    yield from (line.subject("x") for line in WORK_LINES)
    yield from (f"$KV.{bucket.name}.default.x" for bucket in KEY_VALUE_BUCKETS)
    yield from (f"$O.{bucket.name}.{kind}.x" for bucket in OBJECT_BUCKETS for kind in "CM")
    yield from (f"{make_inbox_prefix(user.name)}.x.y" for user in BUS_USERS)
    yield from (make_audit_pattern(user.name).replace("*", "x") for user in BUS_USERS)
    yield from ("skillbus.run.x", "skillbus.ctl.run.cancel.x", "skillbus.ctl.call.cancel.x")
    yield from ("skillbus.dlq.SKILLBUS_EVT.indexer", "_R_.x.y")
    yield from ("$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.USER.INFO", "$JS.FC.OBJ_runs.x.y")
    yield from list_jetstream_requests()


def test_the_table_written_by_hand_names_every_limited_user() -> None:
    assert sorted(FORBIDDEN) == sorted(LIMITED)


@pytest.mark.parametrize("user", LIMITED)
async def test_a_user_cannot_publish_what_is_not_its_business(bus_of: DeployedBus, user: str) -> None:
    others = [subject for subject in list_publications() if not may_publish(USERS[user], subject)]
    forbidden = list(dict.fromkeys([*FORBIDDEN[user], *others]))
    async with bus_of.connect(user) as connection:
        for subject in forbidden:
            await connection.client.publish(subject, b"x")
        assert await connection.refuses(forbidden) == []


@pytest.mark.parametrize("user", LIMITED)
async def test_a_user_hears_neither_requests_nor_replies_of_others(bus_of: DeployedBus, user: str) -> None:
    patterns = [">", "skillbus.>", "$JS.>", "$KV.>", "$O.>", "_R_.>", "$SYS.>", "skillbus.v1.>", "skillbus.evt.>"]
    patterns += [
        f"{make_inbox_prefix(other)}.>" for other in USERS if make_inbox_prefix(other) != make_inbox_prefix(user)
    ]
    patterns += [endpoint.subject for endpoint in ENDPOINTS if endpoint.service != user]
    async with bus_of.connect(user) as connection:
        for pattern in patterns:
            await connection.client.subscribe(pattern)
        assert await connection.refuses(patterns) == []


@pytest.mark.parametrize("user", LIMITED)
async def test_a_user_cannot_answer_in_the_place_of_a_service(bus_of: DeployedBus, user: str) -> None:
    others = [endpoint for endpoint in ENDPOINTS if endpoint.service != user]
    async with bus_of.connect(user) as connection:
        for endpoint in others:
            await connection.client.subscribe(endpoint.subject, queue=endpoint.service)
        assert await connection.refuses([endpoint.subject for endpoint in others]) == []


async def test_a_service_answers_what_it_is_asked_once(bus_of: DeployedBus) -> None:
    async with bus_of.connect("embedder") as embedder, bus_of.connect("gateway") as gateway:

        async def answer(message: Msg) -> None:
            await message.respond(b"1")
            await embedder.client.publish(message.reply, b"2")

        await embedder.client.subscribe("skillbus.v1.embedder.embed_texts", queue="embedder", cb=answer)
        await confirm_subscriptions(embedder.client)
        reply = await gateway.client.request("skillbus.v1.embedder.embed_texts", b"x", timeout=5)
        assert reply.data == b"1"
        await eventually(lambda: _value(embedder.refused), bool)

    assert "_inbox" in embedder.refused[0]


async def _value(refused: list[str]) -> list[str]:
    return refused


@pytest.mark.parametrize("user", [*USERS, None])
async def test_nobody_comes_in_with_the_name_of_a_user_alone(bus_of: DeployedBus, user: str | None) -> None:
    client = Client()
    with pytest.raises(NatsError):
        await client.connect(bus_of.url, user=user, password="guess" if user else None, allow_reconnect=False)
    await client.close()


async def test_messages_are_limited_to_one_mebibyte(bus_of: DeployedBus) -> None:
    async with bus_of.connect("operator") as operator:
        assert operator.client.max_payload == 1024 * 1024


def remove_permissions(config: str) -> str:
    """Leave the accounts and nothing else between the users."""
    changed, count = re.subn(r"permissions: \{ # (\w+)\n.*?\n      \}\}", r"} # \1", config, flags=re.DOTALL)
    assert count == len(LIMITED)
    return changed


@pytest.fixture(scope="module")
def without_permissions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedBus]:
    with run_deployed_bus(tmp_path_factory.mktemp("bus"), change=remove_permissions) as bus:
        yield bus


@pytest.fixture
async def heard_in_the_core(without_permissions: DeployedBus) -> AsyncGenerator[list[str]]:
    """Subjects of all messages in the core account."""
    heard: list[str] = []

    async def note(message: Msg) -> None:
        heard.append(message.subject)

    async with without_permissions.connect("operator") as operator:
        await operator.client.subscribe(">", cb=note)
        await confirm_subscriptions(operator.client)
        yield heard


@pytest.mark.parametrize("user", OUTSIDE)
async def test_an_account_alone_keeps_a_user_from_everything_that_it_does_not_import(
    without_permissions: DeployedBus, heard_in_the_core: list[str], user: str
) -> None:
    """A mistake in the permissions of a user outside the core zone opens nothing."""
    zone = USERS[user].zone
    allowed = [crossing.local_subject for crossing in list_crossings() if crossing.importer is zone]
    allowed += [
        crossing.subject for crossing in list_crossings() if (crossing.exporter, crossing.kind) == (zone, "stream")
    ]
    forbidden = [
        subject for subject in list_publications() if not any(matches(pattern, subject) for pattern in allowed)
    ]
    assert len(forbidden) > 500
    async with without_permissions.connect(user) as connection:
        for subject in forbidden:
            await connection.client.publish(subject, b"x", reply="skillbus.v1.agent.register_mcp_server")
        # What is imported arrives, after everything before it on the same connection.
        last = next(crossing for crossing in list_crossings() if crossing.importer is zone and "v1" in crossing.subject)
        await connection.client.publish(last.local_subject, b"last")
        await confirm_subscriptions(connection.client)
        await eventually(lambda: _value(heard_in_the_core), lambda heard: last.subject in heard)

    assert [subject for subject in heard_in_the_core if subject != last.subject] == []


def test_replies_of_every_exported_endpoint_may_take_longer_than_a_run() -> None:
    """By default the server forgets after two minutes who asked through an import, and drops the reply."""
    exported = [line for line in CONFIG.read_text().splitlines() if '{ service: "skillbus.v1.' in line]
    assert len(exported) > 50
    assert [line for line in exported if 'response_threshold: "2h"' not in line] == []


def test_no_user_outside_the_core_zone_reaches_consumers() -> None:
    for crossing in list_crossings():
        assert "CONSUMER" not in crossing.subject
        assert crossing.subject not in ("$JS.API.>", ">")
    for user in BUS_USERS:
        assert user.zone is Zone.CORE or not (user.consumes or user.provisions or user.unrestricted)
