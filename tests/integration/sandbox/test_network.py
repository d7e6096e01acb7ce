"""A run that may reach a place, in a real sandbox: what gets through the proxy, and what does not get out at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillbus.common.outbound.addresses import AddressRule
from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.kernel.watchdog import Watchdog
from skillbus.sandbox.domain.egress_policy import EgressPolicy, HostPort
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import ISOLATING, RunOutcome, RunSpec

from ...abuse.model import find_runtime

POLICY = EgressPolicy(addresses=AddressRule.parse("127.0.0.0/8"), head_s=1.0, idle_s=2.0)
MODULE = """
import http.client, json, os, socket, sys, urllib.error, urllib.request

def tried(attempt):
    try:
        return attempt()
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code} {error.read().decode()}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"

def fetched(url):
    return tried(lambda: urllib.request.urlopen(url, timeout=5).read().decode())

port = int(sys.argv[1])
for name in ("NO_PROXY", "no_proxy"):  # localhost is the host's here, and not the sandbox itself
    del os.environ[name]
"""


@dataclass
class Site:
    """An HTTP server on loopback: it answers with the request's target, and sends /away to another place."""

    port: int = 0
    away: int = 0
    heard: list[bytes] = field(default_factory=list)

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heard.append(head)
            target = head.split()[1]
            away = f"Location: http://localhost:{self.away}/\r\n" if target == b"/away" else ""
            status = "302 Found" if away else "200 OK"
            answer = f"HTTP/1.1 {status}\r\n{away}Content-Length: {len(target)}\r\nConnection: close\r\n\r\n"
            writer.write(answer.encode() + target)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site, other = Site(), Site()
    servers = [await asyncio.start_server(each.attend, "127.0.0.1", 0) for each in (site, other)]
    site.port, site.away = (server.sockets[0].getsockname()[1] for server in servers)
    yield site
    assert other.heard == []
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.fixture(params=ISOLATING)
async def level(
    request: pytest.FixtureRequest, make_isolation: Callable[..., BubblewrapIsolation], nothing_left: None
) -> AsyncIterator[BubblewrapIsolation]:
    """Each level that holds here."""
    async with make_isolation(levels=(request.param,), egress=POLICY) as made:
        try:
            await made.probe()
        except SandboxUnavailable as unavailable:
            pytest.skip(f"level {request.param} does not hold here: {unavailable}")
        yield made
    assert list(Path("/tmp").glob("skillbus-net-*")) == []


@pytest.fixture
async def reaching(make_isolation: Callable[..., BubblewrapIsolation], nothing_left: None) -> BubblewrapIsolation:
    made = make_isolation(egress=POLICY)
    try:
        await made.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    return made


async def run(
    isolation: BubblewrapIsolation,
    folder: Path,
    source: str,
    *network: str,
    name: str = "main.py",
    argv: tuple[str, ...] = (),
    wall_s: float = 20,
) -> RunOutcome:
    skill = folder / "skill"
    skill.mkdir(exist_ok=True)
    (skill / name).write_text(source)
    places = tuple(map(HostPort.parse, network))
    return await isolation.run(
        RunSpec(skill, name, find_runtime(name), argv, limits=Limits(wall_s=wall_s), network=places)
    )


async def test_a_python_script_reaches_an_approved_place_by_its_usual_means(
    level: BubblewrapIsolation, site: Site, tmp_path: Path
) -> None:
    source = MODULE + (
        "tunnel = http.client.HTTPConnection('127.0.0.1', 3128)\n"
        "tunnel.set_tunnel('localhost', port)\n"
        "tunnel.request('GET', '/tunnelled')\n"
        "print(json.dumps([fetched(f'http://localhost:{port}/plain?a=b'), tunnel.getresponse().read().decode()]))"
    )
    outcome = await run(level, tmp_path, source, f"localhost:{site.port}", argv=(str(site.port),))
    assert (outcome.status, json.loads(outcome.stdout)) == (RunStatus.OK, ["/plain?a=b", "/tunnelled"]), outcome
    assert len(site.heard) == 2


async def test_every_other_way_out_is_closed(level: BubblewrapIsolation, site: Site, tmp_path: Path) -> None:
    source = MODULE + (
        "def raw(words):\n"
        "    with socket.create_connection(('127.0.0.1', 3128), 5) as end:\n"
        "        end.sendall(words)\n"
        "        return end.makefile('rb').readline().decode().strip()\n"
        "def opened(*kind):\n"
        "    return lambda: socket.socket(*kind).close()\n"
        "print(json.dumps({\n"
        "  'direct': tried(lambda: socket.create_connection(('127.0.0.1', port), 2)),\n"
        "  'direct name': tried(lambda: socket.create_connection(('localhost', port), 2)),\n"
        "  'elsewhere': tried(lambda: socket.create_connection(('192.0.2.1', 80), 2)),\n"
        "  'other host': fetched(f'http://other.example:{port}/'),\n"
        "  'other port': fetched(f'http://localhost:{port + 1}/'),\n"
        "  'address': fetched(f'http://127.0.0.2:{port}/'),\n"
        "  'away': fetched(f'http://localhost:{port}/away'),\n"
        "  'metadata': fetched('http://169.254.169.254/latest/'),\n"
        "  'smuggled': raw(b'GET http://localhost:%d/ HTTP/1.1\\r\\nX: a\\nHost: b\\r\\n\\r\\n' % port),\n"
        "  'two lengths': raw(b'POST http://localhost:%d/ HTTP/1.1\\r\\nContent-Length: 1\\r\\n'\n"
        "                     b'Content-Length: 2\\r\\n\\r\\n' % port),\n"
        "  'huge head': raw(b'GET http://localhost:%d/ HTTP/1.1\\r\\nX: %s\\r\\n\\r\\n' % (port, b'a' * 100_000)),\n"
        "  'trickle': raw(b'GET http://loc'),\n"
        "  'datagram': tried(opened(socket.AF_INET, socket.SOCK_DGRAM)),\n"
        "  'raw': tried(opened(socket.AF_INET6, socket.SOCK_RAW, 58)),\n"
        "  'netlink': tried(opened(socket.AF_NETLINK, socket.SOCK_RAW, 0)),\n"
        "  'vsock': tried(opened(socket.AF_VSOCK, socket.SOCK_STREAM)),\n"
        "  'mptcp': tried(opened(socket.AF_INET, socket.SOCK_STREAM, 262)),\n"
        "  'name': tried(lambda: socket.getaddrinfo('example.org', 443)),\n"
        "}))"
    )
    outcome = await run(level, tmp_path, source, f"localhost:{site.port}", argv=(str(site.port),))
    said = json.loads(outcome.stdout)
    begins = {
        "direct": "ConnectionRefusedError",
        "direct name": "ConnectionRefusedError",
        "elsewhere": "OSError: [Errno 101]",
        **dict.fromkeys(("other host", "other port", "address", "away", "metadata"), "HTTP 403 "),
        "smuggled": "HTTP/1.1 400 ",
        "two lengths": "HTTP/1.1 400 ",
        "huge head": "HTTP/1.1 431 ",
        "trickle": "HTTP/1.1 408 ",
        **dict.fromkeys(("datagram", "raw", "mptcp"), "OSError: [Errno 93]"),
        **dict.fromkeys(("netlink", "vsock"), "OSError: [Errno 97]"),
        "name": "gaierror",
    }
    assert {key: text for key, text in said.items() if not str(text).startswith(begins[key])} == {}
    assert [head.split()[1] for head in site.heard] == [b"/away"]


async def test_an_approved_name_of_a_private_address_is_refused_where_no_operator_opened_its_network(
    make_isolation: Callable[..., BubblewrapIsolation], nothing_left: None, site: Site, tmp_path: Path
) -> None:
    isolation = make_isolation()
    source = MODULE + "print(fetched(f'http://localhost:{port}/'))"
    outcome = await run(isolation, tmp_path, source, f"localhost:{site.port}", argv=(str(site.port),))
    assert outcome.stdout.startswith(b"HTTP 403 localhost is or resolves to an address"), outcome
    assert site.heard == []


async def test_a_run_without_a_network_has_no_socket_of_the_internet_and_no_proxy(
    reaching: BubblewrapIsolation, tmp_path: Path
) -> None:
    source = (
        "import os, socket\n"
        "try: socket.socket(socket.AF_INET)\n"
        "except OSError as error: print(error.errno, [name for name in os.environ if 'proxy' in name.lower()],"
        " os.path.exists('/egress'), os.path.exists('/relay.py'))"
    )
    assert (await run(reaching, tmp_path, source)).stdout == b"97 [] False False\n"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "main.sh",
            'curl -sS --max-time 5 "http://localhost:$1/plain"; curl -sSp --max-time 5 "http://localhost:$1/tunnel"',
        ),
        (
            "main.js",
            (
                "const http = require('http'), proxy = new URL(process.env.HTTP_PROXY), port = process.argv[2];"
                "const get = (path, then) => http.get({host: proxy.hostname, port: proxy.port,"
                " path: `http://localhost:${port}${path}`}, answer => {let all = ''; answer"
                ".on('data', part => all += part).on('end', () => { process.stdout.write(all); then() })});"
                "get('/plain', () => get('/tunnel', () => {}))"
            ),
        ),
    ],
)
async def test_programs_of_other_languages_reach_it_as_well(
    reaching: BubblewrapIsolation, site: Site, tmp_path: Path, name: str, source: str
) -> None:
    if name.endswith(".js") and Runtime.NODE not in (await reaching.probe()).runtimes:
        pytest.skip("Node is not installed")
    if name.endswith(".sh") and not Path("/usr/bin/curl").exists():
        pytest.skip("curl is not installed")
    # It does not ask its proxy for what NO_PROXY names: localhost is the sandbox itself.
    source = source.replace("curl ", "curl --noproxy '' ")
    outcome = await run(reaching, tmp_path, source, f"localhost:{site.port}", name=name, argv=(str(site.port),))
    assert (outcome.status, outcome.stdout) == (RunStatus.OK, b"/plain/tunnel"), outcome


async def test_many_connections_at_once_pass_the_relay_whole(reaching: BubblewrapIsolation, tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        writer.close()

    source = MODULE + (
        "import threading\n"
        "threading.stack_size(262144)\n"
        "def one(index, done):\n"
        "    with socket.create_connection(('127.0.0.1', 3128), 10) as end:\n"
        "        end.sendall(b'CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\n' % port)\n"
        "        file = end.makefile('rb')\n"
        "        assert file.readline().startswith(b'HTTP/1.1 200') and file.readline() == b'\\r\\n'\n"
        "        sent = bytes([index]) * 300_000\n"
        "        threading.Thread(target=lambda: (end.sendall(sent), end.shutdown(1))).start()\n"
        "        done[index] = file.read() == sent\n"
        "done = {}\n"
        "threads = [threading.Thread(target=one, args=(index, done)) for index in range(20)]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "print(sum(done.values()))"
    )
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await run(reaching, tmp_path, source, f"localhost:{port}", argv=(str(port),))
    assert outcome.stdout == b"20\n", outcome.stderr.decode()


async def test_connections_that_are_broken_in_every_way_leave_the_way_open(
    reaching: BubblewrapIsolation, site: Site, tmp_path: Path
) -> None:
    source = MODULE + (
        "import random, struct, time\n"
        "chance = random.Random(7)\n"
        "words = b'GET http://localhost:%d/x HTTP/1.1\\r\\nX: y\\r\\n\\r\\n' % port\n"
        "for _ in range(120):\n"
        "    end = socket.create_connection(('127.0.0.1', 3128), 5)\n"
        "    end.sendall(words[:chance.randrange(len(words) + 1)])\n"
        "    how = chance.randrange(4)\n"
        "    if how == 0: end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
        "    if how == 1: end.shutdown(socket.SHUT_WR); end.recv(10)\n"
        "    if how == 2: end.shutdown(socket.SHUT_RD)\n"
        "    end.close()\n"
        "print(fetched(f'http://localhost:{port}/whole'))"
    )
    outcome = await run(reaching, tmp_path, source, f"localhost:{site.port}", argv=(str(site.port),))
    assert outcome.stdout == b"/whole\n", outcome


async def test_a_run_that_is_killed_in_the_midst_of_a_connection_leaves_nothing(
    reaching: BubblewrapIsolation, tmp_path: Path
) -> None:
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            ended.set()
            writer.close()

    source = MODULE + (
        "with socket.create_connection(('127.0.0.1', 3128)) as end:\n"
        "    end.sendall(b'CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\n' % port)\n"
        "    while True: end.recv(100)"
    )
    before = asyncio.all_tasks()
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await run(reaching, tmp_path, source, f"localhost:{port}", argv=(str(port),), wall_s=0.5)
        async with asyncio.timeout(5):
            await ended.wait()
    await reaching.wait_until_clean()
    assert outcome.status is RunStatus.TIMEOUT
    assert {task for task in asyncio.all_tasks() if task not in before and not task.done()} == set()
    assert list(Path("/tmp").glob("skillbus-net-*")) == []


async def test_a_skill_cannot_look_into_the_relay_and_ends_its_own_way_out_when_it_kills_it(
    reaching: BubblewrapIsolation, site: Site, tmp_path: Path
) -> None:
    source = MODULE + (
        "import signal\n"
        "mine = {os.getpid(), 1}\n"
        "others = [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) not in mine]\n"
        "looked = [tried(lambda: open(f'/proc/{pid}/mem', 'rb').close()) for pid in others]\n"
        "[os.kill(pid, signal.SIGKILL) for pid in others]\n"
        "import time; time.sleep(0.1)\n"
        "print(json.dumps([len(others), [text.split(':')[0] for text in looked], fetched(f'http://localhost:{port}/')]))"
    )
    outcome = await run(reaching, tmp_path, source, f"localhost:{site.port}", argv=(str(site.port),))
    count, looked, fetched = json.loads(outcome.stdout)
    assert (count, looked) == (1, ["PermissionError"])
    assert "Connection refused" in fetched


HOARDS = {
    # Each end is filled until it takes no more, in both directions. Fewer than the descriptors that a script may have.
    "accepted": "for _ in range(55):\n"
    "    a = socket.create_connection(here, 5); b, _ = server.accept()\n"
    "    held += [fill(a), fill(b)]\n",
    # One end is closed with words unsaid, the other was never accepted: neither is a process's socket.
    "orphaned": "for _ in range(150):\n    fill(socket.create_connection(here, 5)).close()\n",
}


@pytest.mark.serial
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
@pytest.mark.parametrize("hoard", HOARDS)
async def test_a_hoard_of_connections_is_ended_before_it_holds_the_memory_of_the_machine(
    make_isolation: Callable[..., BubblewrapIsolation], nothing_left: None, tmp_path: Path, hoard: str, family: str
) -> None:
    """What TCP buffers is kernel memory of no process: some 5 MiB of each end here, half a GB of all that are tried."""
    isolation = make_isolation(metering=Watchdog())
    source = (
        "import socket, time\n"
        "def fill(end):\n"
        "    end.setblocking(False)\n"
        "    for _ in range(20):\n"
        "        try: end.send(b'x' * 1_000_000)\n"
        "        except BlockingIOError: break\n"
        "    return end\n"
        f"server = socket.socket(socket.{family}); server.bind(('localhost' if server.family == 2 else '::1', 0))\n"
        "server.listen(200); here, held = server.getsockname()[:2], []\n"
        f"{HOARDS[hoard]}"
        "time.sleep(20); print('held')"
    )
    outcome = await run(isolation, tmp_path, source, "a.example:443")
    assert (outcome.status, outcome.stdout) == (RunStatus.MEMORY, b""), outcome
    assert "sockets, the limit is 96" in outcome.detail
