"""The attack that opened every endpoint: let the server publish a stored message with its own rights."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from skillbus.common.bus.connection import confirm_subscriptions
from skillbus.common.testing import eventually
from skillbus.contracts.agent.mcp_servers import REGISTER_MCP_SERVER
from skillbus.contracts.bus_users import JETSTREAM_DOMAIN

from ...deployed_bus import DeployedBus, run_deployed_bus

TARGET = REGISTER_MCP_SERVER.subject
SEED = json.dumps({"name": "evil", "command": ["/bin/sh"]}).encode()
HEARD_OF_LAST = b"last"

ONE_ACCOUNT = """
accounts { SYS {}, CORE { jetstream: enabled, users: [
  { nkey: $NKEY_INDEXER }, { nkey: $NKEY_OPERATOR }, { nkey: $NKEY_GATEWAY }
  { nkey: $NKEY_AGENT, permissions: {
    publish: ["x"], subscribe: ["skillbus.v1.agent.* agent", "_INBOX_agent.>"]
    allow_responses: { max: 1, expires: "1h" }
  }}
  { nkey: $NKEY_SANDBOX, permissions: {
    publish: [
      "skillbus.run.*", "$JS.API.STREAM.MSG.GET.SKILLBUS_RUNS", "$JS.API.CONSUMER.CREATE.SKILLBUS_RUNS"
      "$JS.API.CONSUMER.CREATE.SKILLBUS_RUNS.>", "$JS.API.CONSUMER.CREATE.OBJ_runs.>"
    ]
    subscribe: ["_INBOX_sandbox.>"]
  }}
  { nkey: $NKEY_EMBEDDER }, { nkey: $NKEY_RETRIEVER }, { nkey: $NKEY_LEARNER }, { nkey: $NKEY_CLIENT }
]}}
"""
"""One account, as it was: the sandbox may create a consumer on a stream that it may write to."""


def put_into_one_account(config: str) -> str:
    return re.sub(r"\naccounts \{.*", ONE_ACCOUNT, config, flags=re.DOTALL)


@pytest.fixture(scope="module", params=["accounts", "one account"])
def walls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DeployedBus, bool]]:
    one_account = request.param == "one account"
    folder = tmp_path_factory.mktemp("bus")
    with run_deployed_bus(folder, change=put_into_one_account if one_account else lambda config: config) as bus:
        yield bus, one_account


@asynccontextmanager
async def asked(bus: DeployedBus) -> AsyncGenerator[list[bytes]]:
    """The bodies that the agent's endpoint receives."""
    bodies: list[bytes] = []

    async def note(message: Msg) -> None:
        bodies.append(message.data)

    async with bus.connect("agent") as agent:
        await agent.client.subscribe(TARGET, queue="agent", cb=note)
        await confirm_subscriptions(agent.client)
        yield bodies


async def wait_for_a_later_request(bus: DeployedBus, bodies: list[bytes]) -> list[bytes]:
    """What the endpoint received before a request of the gateway that was sent after all the rest."""
    async with bus.connect("gateway") as gateway:
        await gateway.client.publish(TARGET, HEARD_OF_LAST)
        await confirm_subscriptions(gateway.client)

        async def received() -> list[bytes]:
            return list(bodies)

        found = await eventually(received, lambda every: HEARD_OF_LAST in every)
    return [body for body in found if body != HEARD_OF_LAST]


async def send(client: Client, subject: str, body: object) -> None:
    await client.publish(subject, json.dumps(body).encode(), reply=client.new_inbox())


async def test_a_push_consumer_of_the_sandbox_does_not_reach_the_agent(walls: tuple[DeployedBus, bool]) -> None:
    bus, one_account = walls
    async with asked(bus) as bodies, bus.connect("sandbox") as sandbox:
        await sandbox.client.publish("skillbus.run.x", SEED)
        config = {
            "name": "evil",
            "durable_name": "evil",
            "deliver_subject": TARGET,
            "deliver_group": "agent",
            "deliver_policy": "all",
            "ack_policy": "none",
        }
        for stream in ("SKILLBUS_RUNS", "OBJ_runs"):
            for api in ("$JS.API", f"$JS.{JETSTREAM_DOMAIN}.API"):
                for verb in ("CREATE", "DURABLE.CREATE"):
                    subject = f"{api}.CONSUMER.{verb}.{stream}.evil"
                    await send(sandbox.client, subject, {"stream_name": stream, "config": config})
        await confirm_subscriptions(sandbox.client)
        if one_account:  # the attack works where there is no wall, so its failure below means something
            await eventually(lambda: asyncio.sleep(0, list(bodies)), lambda every: SEED in every)
        got = await wait_for_a_later_request(bus, bodies)
    assert (SEED in got) == one_account


async def test_a_reply_of_the_server_does_not_reach_the_agent(walls: tuple[DeployedBus, bool]) -> None:
    """The asker chooses the subject of a reply: the acknowledgement of a publish, and a message read from a stream."""
    bus, one_account = walls
    async with asked(bus) as bodies, bus.connect("sandbox") as sandbox:
        await sandbox.client.publish("skillbus.run.x", SEED, reply=TARGET)
        for api in ("$JS.API", f"$JS.{JETSTREAM_DOMAIN}.API"):
            query = json.dumps({"last_by_subj": "skillbus.run.x"}).encode()
            await sandbox.client.publish(f"{api}.STREAM.MSG.GET.SKILLBUS_RUNS", query, reply=TARGET)
            await sandbox.client.publish(f"{api}.DIRECT.GET.OBJ_packages", b'{"seq":1}', reply=TARGET)
        await sandbox.client.publish("skillbus.v1.indexer.get_skill", b"{}", reply=TARGET)
        scheduled = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": TARGET}
        await sandbox.client.publish("skillbus.run.y", SEED, headers=scheduled)
        await confirm_subscriptions(sandbox.client)
        if one_account:
            await eventually(lambda: asyncio.sleep(0, list(bodies)), lambda every: len(every) > 1)
        got = await wait_for_a_later_request(bus, bodies)
    assert bool(got) == one_account
