"""The bus of the Compose deployment without containers: nats-server with `deploy/nats.conf` and its own secrets."""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nats.aio.client import Client
from prometheus_client import CollectorRegistry

from skillbus.cli.deployment.secrets_folder import SecretsFolder
from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.provision import provision
from skillbus.common.testing import eventually
from skillbus.contracts.bus_users import BUS_USERS, JETSTREAM_DOMAIN, BusUser, Zone
from skillbus.contracts.documents.nats_accounts import USER_KEYS_FILE, list_permissions, make_inbox_prefix
from skillbus.contracts.resources import CONSUMERS, KEY_VALUE_BUCKETS, OBJECT_BUCKETS, STREAMS
from skillbus.standalone.nats_server import find_nats_binary

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "deploy" / "nats.conf"
USERS = {user.name: user for user in BUS_USERS}
STREAM_NAMES = (
    *(stream.name for stream in STREAMS),
    *(bucket.stream for bucket in OBJECT_BUCKETS),
    *(f"KV_{bucket.name}" for bucket in KEY_VALUE_BUCKETS),
)


@dataclass
class ServerConnection:
    """A user's connection, and what the server refused it."""

    client: Client
    refused: list[str] = field(default_factory=list)

    async def refuses(self, subjects: Sequence[str]) -> list[str]:
        """Wait until the server has refused every subject; those that it did not."""

        async def allowed() -> list[str]:
            said = set(re.findall(r'"([^"]+)"', "\n".join(self.refused)))
            return [subject for subject in subjects if subject.lower() not in said]

        return await eventually(allowed, lambda names: not names)


@dataclass(frozen=True)
class DeployedBus:
    """A running server and the folder of its users' seeds."""

    url: str
    secrets: Path

    def settings(self, user: str) -> BusSettings:
        """The settings that Compose gives to a service."""
        ca_file = self.secrets / "ca.pem"
        return BusSettings(
            url=self.url,
            seed_file=self.secrets / f"nats-{user}.seed",
            inbox_prefix=make_inbox_prefix(user),
            jetstream_domain=None if USERS[user].zone is Zone.CORE else JETSTREAM_DOMAIN,
            tls_ca_file=ca_file if ca_file.is_file() else None,
            connect_timeout_s=5,
        )

    @asynccontextmanager
    async def open_bus(self, user: str) -> AsyncGenerator[Bus]:
        async with open_bus(self.settings(user), f"test-{user}", CollectorRegistry()) as bus:
            yield bus

    @asynccontextmanager
    async def connect(self, user: str) -> AsyncGenerator[ServerConnection]:
        client = Client()
        connection = ServerConnection(client)

        async def on_error(error: Exception) -> None:
            connection.refused.append(str(error).lower())

        try:
            await client.connect(
                self.url,
                nkeys_seed=str(self.secrets / f"nats-{user}.seed"),
                inbox_prefix=make_inbox_prefix(user),
                error_cb=on_error,
                allow_reconnect=False,
            )
            yield connection
        finally:
            await client.close()


@contextmanager
def run_deployed_bus(
    folder: Path, *, tls: bool = False, change: Callable[[str], str] = lambda config: config
) -> Iterator[DeployedBus]:
    """Run a server with the deployment's configuration; only its ports and folders are others.

    The indexer has provisioned it: that it may is part of the tests.
    """
    folder.mkdir(exist_ok=True)
    secrets = folder / "secrets"
    SecretsFolder(secrets).write_all(["localhost", "127.0.0.1"] if tls else [])
    config = change(CONFIG.read_text())
    replaced = {
        '"0.0.0.0:4222"': '"127.0.0.1:-1"',
        '"0.0.0.0:8222"': '"127.0.0.1:-1"',
        '"/data/jetstream"': json.dumps(str(folder / "store")),
        # A disk that syncs each write is not what these tests are about.
        "sync_interval: always": "sync_interval: 2m",
    }
    for there, here in replaced.items():
        assert there in config
        config = config.replace(there, here)
    (folder / "nats.conf").write_text(config)
    users = (secrets / USER_KEYS_FILE).read_text().replace('"/etc/skillbus/', f'"{secrets}/')
    (folder / USER_KEYS_FILE).write_text(users)
    (ports := folder / "ports").mkdir()
    command = [find_nats_binary(), "--config", str(folder / "nats.conf"), "--ports_file_dir", str(ports)]
    with folder.joinpath("log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with ThreadPoolExecutor(1) as thread:  # the caller may have a running event loop
            url = thread.submit(asyncio.run, _wait_for_url(server, ports, folder / "log")).result()
            bus = DeployedBus(url, secrets)
            thread.submit(asyncio.run, _provision(bus)).result()
        yield bus
    finally:
        server.terminate()
        server.wait(timeout=10)


async def _wait_for_url(server: "subprocess.Popen[bytes]", ports: Path, log: Path) -> str:
    async def url() -> str:
        assert server.poll() is None, log.read_text()[-2000:]
        for file in ports.glob("*.ports"):
            try:
                return str(json.loads(file.read_text())["nats"][0])
            except (ValueError, KeyError, IndexError):
                break
        return ""

    return (await eventually(url, bool)).replace("tls://", "nats://")


async def _provision(bus: DeployedBus) -> None:
    async with bus.open_bus("indexer") as indexer:
        await provision(indexer.jetstream)


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject fits a pattern with `*` and `>`."""
    expected, given = pattern.split("."), subject.split(".")
    for at, token in enumerate(expected):
        if token == ">":
            return len(given) > at
        if at >= len(given) or token not in ("*", given[at]):
            return False
    return len(expected) == len(given)


def may_publish(user: BusUser, subject: str) -> bool:
    """Whether the table lets a user publish to a subject."""
    patterns = list_permissions(user)["publish"]
    assert isinstance(patterns, list)
    return user.unrestricted or any(matches(str(pattern), subject) for pattern in patterns)


def list_jetstream_requests() -> Iterator[str]:
    """Every request of the JetStream API on every stream and consumer of skillbus, and on those that do not exist."""
    for api in ("$JS.API", f"$JS.{JETSTREAM_DOMAIN}.API"):
        yield from (f"{api}.INFO", f"{api}.STREAM.NAMES", f"{api}.STREAM.LIST")
        for stream in (*STREAM_NAMES, "made-up"):
            verbs = ("CREATE", "UPDATE", "INFO", "DELETE", "PURGE", "SNAPSHOT", "RESTORE", "LEADER.STEPDOWN")
            yield from (f"{api}.STREAM.{verb}.{stream}" for verb in (*verbs, "MSG.GET", "MSG.DELETE", "PEER.REMOVE"))
            yield from (f"{api}.DIRECT.GET.{stream}", f"{api}.DIRECT.GET.{stream}.skillbus.run.x")
            yield from (f"{api}.CONSUMER.{verb}.{stream}" for verb in ("CREATE", "NAMES", "LIST"))
            consumers = [consumer.name for consumer in CONSUMERS if consumer.stream == stream]
            for consumer in (*consumers, "made-up"):
                verbs = ("CREATE", "DURABLE.CREATE", "INFO", "DELETE", "MSG.NEXT", "PAUSE", "UNPIN", "LEADER.STEPDOWN")
                yield from (f"{api}.CONSUMER.{verb}.{stream}.{consumer}" for verb in verbs)
                yield f"{api}.CONSUMER.CREATE.{stream}.{consumer}.skillbus.run.x"
    yield from (f"$JS.ACK.{consumer.stream}.{consumer.name}.1.1.1.1.0" for consumer in CONSUMERS)
