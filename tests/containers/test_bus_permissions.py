"""What each container of the deployment may do on the bus, tried from inside it with its own key."""

import json
import subprocess

import pytest

from skillbus.contracts.bus_users import BUS_USERS
from skillbus.contracts.catalogue import ENDPOINTS

from ..deployed_bus import USERS, list_jetstream_requests, may_publish
from .compose import Stack

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

SERVICES = [user.name for user in BUS_USERS if user.name not in ("client", "operator")]
TRY_ALL = """
import asyncio, json, os, re, sys
import nats
from skillbus.common.bus.connection import BusSettings, make_tls_context

async def main():
    asked, refused = json.load(sys.stdin), set()

    async def on_error(error):
        refused.update(re.findall(r'"([^"]+)"', str(error)))

    settings = BusSettings()
    client = await nats.connect(
        settings.url, nkeys_seed=str(settings.seed_file), inbox_prefix=settings.inbox_prefix, error_cb=on_error,
        tls=make_tls_context(settings.tls_ca_file), tls_handshake_first=True,
    )
    for subject in asked["publish"]:
        await client.publish(subject, b"x")
    for pattern in asked["subscribe"]:
        await client.subscribe(pattern)
    wanted = {subject.lower() for subject in asked["publish"] + asked["subscribe"]}
    for _ in range(100):
        await client.flush()
        if wanted <= {subject.lower() for subject in refused}:
            break
        await asyncio.sleep(0.05)
    allowed = sorted(wanted - {subject.lower() for subject in refused})
    print(json.dumps({"allowed": allowed, "secrets": sorted(os.listdir("/etc/skillbus"))}))
    await client.close()

asyncio.run(main())
"""
CONNECT_WITHOUT_KEY = """
import asyncio, socket
import nats
from skillbus.common.bus.connection import BusSettings, make_tls_context

def talk_without_tls():
    with socket.create_connection(("nats", 4222), timeout=5) as connection:
        connection.sendall(b"CONNECT {}\\r\\nPING\\r\\n")
        return connection.recv(1024)

async def connect_without_key():
    settings = BusSettings()
    tls = make_tls_context(settings.tls_ca_file)
    await nats.connect(settings.url, tls=tls, tls_handshake_first=True, allow_reconnect=False, connect_timeout=5)

try:
    print("refused" if b"INFO" not in talk_without_tls() else "answered")
except ConnectionResetError:
    print("refused")
try:
    asyncio.run(connect_without_key())
except nats.errors.Error as error:
    print(error)
"""


def run_inside(stack: Stack, service: str, program: str, stdin: object = None) -> str:
    command = [*stack.compose.compose_command_property, "exec", "-T", service, "python", "-c", program]
    done = subprocess.run(
        command,
        cwd=stack.compose.context,
        input=json.dumps(stdin),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_is_refused_what_is_not_its_business_and_holds_its_own_secrets_only(
    stack: Stack, service: str
) -> None:
    subjects = [*(endpoint.subject for endpoint in ENDPOINTS), *list_jetstream_requests()]
    subjects += ["$SYS.REQ.SERVER.PING", "$O.packages.M.x", "$KV.catalogue.default.skill.x", "_INBOX_other.x"]
    forbidden = [subject for subject in subjects if not may_publish(USERS[service], subject)]
    patterns = [">", "$SYS.>", "_R_.>", "_INBOX_other.>", "skillbus.v1.>"]
    patterns += [endpoint.subject for endpoint in ENDPOINTS if endpoint.service != service]
    extra = {"indexer": ["qdrant-key"], "retriever": ["qdrant-read-only-key"], "gateway": ["owner-key"]}

    found = json.loads(run_inside(stack, service, TRY_ALL, {"publish": forbidden, "subscribe": patterns}))

    assert found == {"allowed": [], "secrets": sorted(["ca.pem", f"nats-{service}.seed", *extra.get(service, [])])}


def test_nobody_comes_in_without_a_key(stack: Stack) -> None:
    without_tls, without_key = run_inside(stack, "sandbox", CONNECT_WITHOUT_KEY).splitlines()
    assert without_tls == "refused"
    assert "authorization violation" in without_key.lower()
