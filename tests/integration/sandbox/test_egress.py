"""The way out of a run, over real sockets of loopback; names and addresses are a test's own."""

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path

import pytest
import uvloop
from structlog.testing import capture_logs

from skillbus.common.outbound.addresses import LOOPBACK as LOOPBACK_ENTRIES
from skillbus.common.outbound.addresses import Address, AddressRule
from skillbus.sandbox.adapters.egress.proxy import HostNetwork, open_egress
from skillbus.sandbox.domain.egress_policy import Connection, EgressPolicy, HostPort

PUBLIC, OTHER, PRIVATE = "93.184.216.34", "2606:2800:220:1::1", "10.0.0.7"
NAME = "api.example.org"
PLACE = HostPort(NAME, 443)
POLICY = EgressPolicy()
LOOPBACK = replace(POLICY, addresses=AddressRule.parse(LOOPBACK_ENTRIES))


@dataclass
class Server:
    """A server of bytes on loopback that remembers what it was sent."""

    answer: bytes = b""
    port: int = 0
    heard: list[bytes] = field(default_factory=list)
    greeting: bytes = b""

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = bytearray()
        try:
            writer.write(self.greeting)
            while chunk := await reader.read(65536):
                heard += chunk
                writer.write(self.answer or chunk)
                await writer.drain()
                if self.answer:
                    break
        except ConnectionError:
            pass
        finally:
            self.heard.append(bytes(heard))
            writer.close()


@dataclass
class Net:
    """`Externals` as a test draws it: names to their answers, one after another, and every address on one server."""

    answers: dict[str, list[list[str]]]
    server: Server
    resolved: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    silent: bool = False
    dead: frozenset[str] = frozenset()
    own: bool = False
    """Whether the connections come from the address that they go to."""

    async def resolve_host(self, host: str) -> Sequence[Address]:
        self.resolved.append(host)
        if self.silent:
            await asyncio.Event().wait()
        answers = self.answers.get(host)
        if answers is None:
            raise OSError("Name or service not known")
        return [ip_address(text) for text in (answers.pop(0) if len(answers) > 1 else answers[0])]

    async def connect(self, address: Address, port: int, head_bytes: int) -> Connection:
        self.dialled.append((str(address), port))
        if str(address) in self.dead:
            raise ConnectionRefusedError
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=head_bytes)
        if self.own:
            writer.transport._extra["sockname"] = (str(address), 1)  # type: ignore[attr-defined]  # asyncio's own
        return reader, writer


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    listening = await asyncio.start_server(server.attend, "127.0.0.1", 0)
    async with listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving(Server()) as server:
        yield server


@pytest.fixture
def net(server: Server) -> Net:
    return Net({NAME: [[PUBLIC]]}, server)


async def say(path: Path, words: bytes, *, rest: bytes = b"", eof: bool = False) -> bytes:
    """All that comes back for `words`; `rest` is said after the first bytes of the answer."""
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(words)
            heard = b""
            if rest:
                heard = await reader.readuntil(b"\r\n\r\n")
                writer.write(rest)
            if rest or eof:
                writer.write_eof()
            return heard + await reader.read()
        finally:
            writer.close()


def connect(place: str = f"{NAME}:443") -> bytes:
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()


def get(url: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {url} HTTP/1.1", *headers, "", "")).encode()


async def test_a_tunnel_to_an_approved_place_carries_bytes_both_ways(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        heard = await say(path, connect(), rest=b"hello" * 50_000)
    assert heard == b"HTTP/1.1 200 Connection established\r\n\r\n" + b"hello" * 50_000
    assert net.dialled == [(PUBLIC, 443)]


async def test_what_is_said_right_after_connect_goes_through_the_tunnel(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        heard = await say(path, connect() + b"early", eof=True)
    assert heard.endswith(b"\r\n\r\nearly")


async def test_a_place_that_speaks_first_is_heard(net: Net) -> None:
    net.server.greeting = b"220 ready\r\n"
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        assert (await say(path, connect(), eof=True)).endswith(b"220 ready\r\n")


async def test_a_plain_request_is_passed_on_to_the_host_of_its_target(net: Net) -> None:
    net.server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with open_egress(frozenset({HostPort(NAME, 80)}), POLICY, outside=net) as path:
        heard = await say(path, get(f"http://{NAME}/x?y", "Host: other.example", "Proxy-Authorization: secret"))
    assert heard == net.server.answer
    assert net.server.heard == [f"GET /x?y HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n".encode()]
    assert net.dialled == [(PUBLIC, 80)]


async def test_of_a_plain_request_no_more_is_passed_on_than_its_body(net: Net) -> None:
    body = b"12345" + get("http://api.example.org/second", "Host: other.example")
    async with open_egress(frozenset({HostPort(NAME, 80)}), replace(POLICY, idle_s=0.2), outside=net) as path:
        await say(path, b"POST http://api.example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n" + body)
    assert len(net.server.heard) == 1
    assert net.server.heard[0].endswith(b"\r\n\r\n12345")


@pytest.mark.parametrize(
    "words",
    [
        connect("other.example:443"),
        connect(f"{NAME}:80"),
        connect(f"{PUBLIC}:443"),
        connect("127.0.0.1:443"),
        connect("169.254.169.254:80"),
        connect("[::1]:443"),
        connect("sub.api.example.org:443"),
        connect("api.example.org.evil.example:443"),
        get(f"http://{NAME}/"),
        get("http://other.example:443/", f"Host: {NAME}:443"),
    ],
)
async def test_any_other_place_is_refused_in_words_and_not_even_resolved(net: Net, words: bytes) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        heard = await say(path, words)
    assert heard.startswith(b"HTTP/1.1 403 ")
    assert b"is not an approved place of this skill" in heard.split(b"\r\n")[0]
    assert (net.resolved, net.dialled) == ([], [])


async def test_a_place_is_the_same_however_its_name_is_written(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        assert (await say(path, connect("API.Example.ORG.:443"), eof=True)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "addresses",
    [
        [PRIVATE],
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["fd00:ec2::254"],
        ["::ffff:10.0.0.7"],
        ["64:ff9b::a00:7"],
        ["2002:a00:7::1"],
        [PUBLIC, PRIVATE],
        [PRIVATE, PUBLIC],
    ],
)
async def test_an_approved_name_that_resolves_to_a_private_address_is_refused(net: Net, addresses: list[str]) -> None:
    net.answers[NAME] = [addresses]
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        heard = await say(path, connect())
    assert heard.startswith(b"HTTP/1.1 403 ")
    assert net.dialled == []


async def test_a_name_that_is_bound_anew_after_it_was_checked_is_checked_anew_and_the_checked_address_is_dialled(
    net: Net,
) -> None:
    net.answers[NAME] = [[PUBLIC], [PRIVATE]]
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        first, second = await say(path, connect(), eof=True), await say(path, connect())
    assert (first[:12], second[:12]) == (b"HTTP/1.1 200", b"HTTP/1.1 403")
    assert net.dialled == [(PUBLIC, 443)]
    assert net.resolved == [NAME, NAME]


async def test_a_place_that_turns_out_to_be_this_machine_is_refused_before_a_word_is_said(net: Net) -> None:
    net.own = True
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        heard = await say(path, connect() + b"words")
    assert heard.startswith(b"HTTP/1.1 403 api.example.org resolves to this machine")
    assert net.dialled == [(PUBLIC, 443)]
    assert b"".join(net.server.heard) == b""


async def test_the_next_address_is_tried_when_one_is_dead(net: Net) -> None:
    net.answers[NAME], net.dead = [[OTHER, PUBLIC]], frozenset({OTHER})
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        assert (await say(path, connect(), eof=True)).startswith(b"HTTP/1.1 200")
    assert net.dialled == [(OTHER, 443), (PUBLIC, 443)]


async def test_a_name_that_does_not_resolve_and_a_place_that_is_dead_are_told_apart(net: Net) -> None:
    net.dead = frozenset({PUBLIC})
    places = frozenset({PLACE, HostPort("nowhere.example", 443)})
    async with open_egress(places, POLICY, outside=net) as path:
        assert b"502 nowhere.example does not resolve" in await say(path, connect("nowhere.example:443"))
        assert b"502 api.example.org:443 refuses" in await say(path, connect())


async def test_a_resolver_that_does_not_answer_is_waited_for_so_long_and_no_longer(net: Net) -> None:
    net.silent = True
    async with open_egress(frozenset({PLACE}), replace(POLICY, connect_s=0.05), outside=net) as path:
        assert (await say(path, connect())).startswith(b"HTTP/1.1 504 ")


async def test_a_head_that_is_too_large_is_refused_and_the_reason_arrives(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), replace(POLICY, head_bytes=4096), outside=net) as path:
        heard = await say(path, connect()[:-2] + b"X: " + b"a" * 200_000 + b"\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_trickles_is_refused_when_its_time_is_over(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), replace(POLICY, head_s=0.2), outside=net) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        heard = asyncio.ensure_future(reader.read())
        for byte in connect():
            writer.write(bytes([byte]))
            await asyncio.wait([heard], timeout=0.01)
            if heard.done():
                break
        assert (await heard).startswith(b"HTTP/1.1 408 ")
        writer.close()
    assert net.resolved == []


async def test_what_the_caller_raises_comes_out_as_it_is(net: Net) -> None:
    with pytest.raises(KeyError):
        async with open_egress(frozenset({PLACE}), POLICY, outside=net):
            raise KeyError


async def test_a_head_that_ends_early_is_malformed(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        assert (await say(path, b"CONNECT api", eof=True)).startswith(b"HTTP/1.1 400 ")


async def test_a_connection_without_a_byte_is_ended(net: Net) -> None:
    async with open_egress(frozenset({PLACE}), replace(POLICY, idle_s=0.1), outside=net) as path:
        with capture_logs() as logs:
            assert (await say(path, connect())).startswith(b"HTTP/1.1 200")
    assert [entry["verdict"] for entry in logs] == ["timed_out"]


async def test_a_connection_is_ended_after_its_time_however_busy_it_is(net: Net) -> None:
    with capture_logs() as logs:
        async with open_egress(frozenset({PLACE}), replace(POLICY, connection_s=0.3), outside=net) as path:
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(connect())
            async with asyncio.timeout(5):
                while not reader.at_eof():
                    writer.write(b"tick")
                    await reader.read(1024)
            writer.close()
    assert [entry["verdict"] for entry in logs] == ["timed_out"]


@pytest.mark.parametrize("size", [60_000, 3_000_000])
async def test_bytes_are_counted_both_ways_and_over_all_connections(net: Net, size: int) -> None:
    async with open_egress(frozenset({PLACE}), replace(POLICY, bytes_max=100_000), outside=net) as path:
        with capture_logs() as logs:
            got = 0
            for _ in range(2):
                try:
                    got += len(await say(path, connect(), rest=b"x" * size))
                except ConnectionError:
                    continue
    assert logs[-1]["verdict"] == "over_bytes"
    assert got < 100_000
    assert sum(entry["sent_bytes"] + entry["received_bytes"] for entry in logs) <= 100_000


async def test_connections_beyond_those_at_once_wait_and_beyond_all_are_refused(net: Net) -> None:
    policy = replace(POLICY, connections_at_once=1, connections_max=3)
    async with open_egress(frozenset({PLACE}), policy, outside=net) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(connect())
        waiting = asyncio.ensure_future(say(path, connect(), eof=True))
        async with asyncio.timeout(5):
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(50):  # more turns than the other connection would take from its beginning to its end
                writer.write(b"tick")
                await reader.readexactly(4)
        assert not waiting.done()
        writer.close()
        assert (await waiting).startswith(b"HTTP/1.1 200")
        assert (await say(path, connect(), eof=True)).startswith(b"HTTP/1.1 200")
        assert b"403 this run has used its 3 connections" in await say(path, connect())


async def test_each_connection_is_logged_without_what_was_said(net: Net) -> None:
    with capture_logs() as logs:
        async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
            await say(path, connect(), rest=b"secret")
            await say(path, connect("other.example:80"))
            await say(path, b"secret\r\n\r\n")
    assert [{key: entry[key] for key in ("host", "port", "address", "verdict")} for entry in logs] == [
        {"host": NAME, "port": 443, "address": PUBLIC, "verdict": "allowed"},
        {"host": "other.example", "port": 80, "address": None, "verdict": "not_approved"},
        {"host": None, "port": None, "address": None, "verdict": "malformed"},
    ]
    assert (logs[0]["sent_bytes"], logs[0]["received_bytes"]) == (6, 6)
    assert "secret" not in str(logs)


async def test_at_the_end_no_connection_task_or_file_is_left(net: Net) -> None:
    before = asyncio.all_tasks()
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(connect())
        async with asyncio.timeout(5):
            await reader.readuntil(b"\r\n\r\n")
        _, idle = await asyncio.open_unix_connection(path)
    async with asyncio.timeout(5):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        idle.close()
        while asyncio.all_tasks() != before:  # noqa: ASYNC110 - the tasks of the fake server end by themselves
            await asyncio.sleep(0)
    assert not path.parent.exists()


async def test_the_socket_is_its_owners_alone(net: Net, tmp_path: Path) -> None:
    async with open_egress(frozenset({PLACE}), POLICY, folder=tmp_path, outside=net) as path:
        assert path.parent.parent == tmp_path
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_hosts_own_network_opens_loopback_only_where_an_operator_named_it(server: Server, host: str) -> None:
    place = HostPort(host, server.port)
    answers = []
    for policy in (POLICY, LOOPBACK):
        async with open_egress(frozenset({place}), policy) as path:
            answers.append((await say(path, connect(str(place)), eof=True))[:12])
    assert answers == [b"HTTP/1.1 403", b"HTTP/1.1 200"]


async def test_the_hosts_resolver_says_when_a_name_is_none() -> None:
    network = HostNetwork()
    try:
        with pytest.raises(OSError, match=r"\[Errno"):
            await network.resolve_host("127.0.0.1.1")
    finally:
        network.close()


async def _twenty_at_a_time_and_some_cut_short() -> None:
    async with serving(Server()) as server:
        place = HostPort("127.0.0.1", server.port)
        for _ in range(5):
            async with open_egress(frozenset({place}), LOOPBACK) as path:
                words = connect(str(place))
                whole = [asyncio.ensure_future(say(path, words, rest=b"x" * 70_000)) for _ in range(20)]
                heard = await asyncio.gather(*whole)
                cut = [asyncio.ensure_future(say(path, words)) for _ in range(5)]
                await asyncio.sleep(0)
            assert {len(words) for words in heard} == {70_039}
            for early in cut:
                with suppress(OSError):
                    await early


def test_it_gives_every_descriptor_back_on_the_loop_that_services_run_on() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))  # its library keeps two for itself, from its first loop on
    before = set(Path("/proc/self/fd").iterdir())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_twenty_at_a_time_and_some_cut_short())
    assert set(Path("/proc/self/fd").iterdir()) <= before


async def test_an_end_that_reads_late_gets_all_and_ends_nothing_else(net: Net) -> None:
    """Sizes about what the sockets hold: the last words are still with the proxy when the place has said them all."""
    async with open_egress(frozenset({PLACE}), POLICY, outside=net) as path:
        for size in range(200_000, 800_000, 20_000):
            net.server.answer = b"x" * size
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(connect() + b"say it")
            writer.write_eof()
            await asyncio.sleep(0.03)
            async with asyncio.timeout(5):
                assert len(await reader.read()) == size + 39
            writer.close()
        assert (await say(path, connect("other.example:80"))).startswith(b"HTTP/1.1 403 ")
