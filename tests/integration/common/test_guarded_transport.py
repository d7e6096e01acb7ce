"""HTTP to names of a test's own: the address that was judged is the one that is connected to."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from skillbus.common.outbound.addresses import Address, AddressRefusedError, AddressRule
from skillbus.common.outbound.transport import GuardedTransport, resolve_host

NAME = "api.example.org"
LISTED = AddressRule.parse("127.0.0.1")


@dataclass
class Names:
    """A resolver that gives one answer after another, and the last one again and again."""

    answers: list[list[str]]
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(text) for text in answer]


@dataclass
class Listener:
    """A server of HTTP on loopback that notes the heads of its requests."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    keep: bool = False

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                if not self.keep:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None, *, keep: bool = False) -> AsyncGenerator[Listener]:
    listener = Listener(keep=keep)
    async with await asyncio.start_server(listener.attend, "127.0.0.1", 0, ssl=context) as server:
        listener.port = server.sockets[0].getsockname()[1]
        yield listener


def client(rule: AddressRule, names: Names | None = None, tls: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    resolve = names.resolve if names else resolve_host
    transport = GuardedTransport(rule, tls or ssl.create_default_context(), resolve=resolve)
    return httpx.AsyncClient(transport=transport, trust_env=False, timeout=5)


async def test_a_name_is_resolved_once_and_the_judged_address_is_connected_to() -> None:
    """A second look at the name would lead elsewhere."""
    names = Names([["127.0.0.1"], ["169.254.169.254"]])
    async with listening() as listener, client(LISTED, names) as http:
        answer = await http.get(f"http://{NAME}:{listener.port}/x")
    assert (answer.text, names.asked) == ("ok", [NAME])
    assert f"host: {NAME}:{listener.port}" in listener.heads[0].lower()


async def test_a_new_connection_is_judged_anew() -> None:
    names = Names([["127.0.0.1"], ["10.0.0.1"]])
    async with listening() as listener, client(LISTED, names) as http:
        await http.get(f"http://{NAME}:{listener.port}/")
        with pytest.raises(AddressRefusedError):
            await http.get(f"http://{NAME}:{listener.port}/")
    assert len(listener.heads) == 1


async def test_a_connection_that_is_kept_needs_no_other_look() -> None:
    names = Names([["127.0.0.1"], ["10.0.0.1"]])
    async with listening(keep=True) as listener, client(LISTED, names) as http:
        for _ in range(3):
            await http.get(f"http://{NAME}:{listener.port}/")
    assert (len(listener.heads), len(names.asked)) == (3, 1)


@pytest.mark.parametrize("answer", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "fe80::1"]])
async def test_one_refused_address_refuses_the_name(answer: list[str]) -> None:
    async with listening() as listener, client(LISTED, Names([answer])) as http:
        with pytest.raises(AddressRefusedError):
            await http.get(f"http://{NAME}:{listener.port}/")
    assert not listener.heads


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.1", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
async def test_loopback_is_refused_in_every_notation_until_it_is_listed(host: str) -> None:
    async with listening() as listener, client(AddressRule()) as http:
        with pytest.raises(AddressRefusedError):
            await http.get(f"http://{host}:{listener.port}/")
    assert not listener.heads


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_loopback_that_is_listed_is_reached_in_every_notation(host: str) -> None:
    async with listening() as listener, client(AddressRule.parse("127.0.0.0/8")) as http:
        assert (await http.get(f"http://{host}:{listener.port}/")).text == "ok"


async def test_a_dead_address_of_a_name_does_not_hide_the_next_one() -> None:
    rule = AddressRule.parse("127.0.0.0/8")
    async with listening() as listener, client(rule, Names([["127.0.0.9", "127.0.0.1"]])) as http:
        assert (await http.get(f"http://{NAME}:{listener.port}/")).text == "ok"


async def test_a_name_that_does_not_resolve_cannot_be_reached() -> None:
    async with client(AddressRule()) as http:
        for host in ("nobody.invalid", "a" * 70 + ".invalid"):
            with pytest.raises(httpx.ConnectError, match="does not resolve"):
                await http.get(f"http://{host}/")
    async with client(AddressRule(), Names([[]])) as http:
        with pytest.raises(httpx.ConnectError, match="has no address"):
            await http.get(f"http://{NAME}/")


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's and the client's side of a certificate for NAME."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(issuer)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "both.pem"
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    pem.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cafile=str(pem))


async def test_tls_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path)
    seen: list[str | None] = []
    server.sni_callback = lambda _, name, __: seen.append(name)
    async with listening(server) as listener, client(LISTED, Names([["127.0.0.1"]]), trusting) as http:
        assert (await http.get(f"https://{NAME}:{listener.port}/")).text == "ok"
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            await http.get(f"https://other.example.org:{listener.port}/")
    assert seen == [NAME, "other.example.org"]
    assert len(listener.heads) == 1
