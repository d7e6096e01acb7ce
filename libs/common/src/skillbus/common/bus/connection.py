"""The connection to NATS: one per process, never given up, shared by the services of the process."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from prometheus_client import CollectorRegistry
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from skillbus.common.bus.caller import Caller, LocalEndpoints
from skillbus.common.bus.disk_space import StorageRoom
from skillbus.common.bus.metrics import BusMetrics

_REPLICAS: Final = (1, 3, 5)
_SCHEMES: Final = ("nats", "tls")
_HOST: Final = re.compile(r"[\w.:%-]+")
_LATE_REPLY: Final = re.compile(r'permissions violation for publish to "(_inbox|_r_)', re.IGNORECASE)
"""Refusal of a reply on another connection than the request came on: its caller sends the request again, or gave up."""

log = structlog.get_logger(__name__)


class BusSettings(BaseSettings):
    """Address of NATS and credentials, read from `SKILLBUS_NATS_*`."""

    model_config = SettingsConfigDict(env_prefix="SKILLBUS_NATS_", frozen=True, env_ignore_empty=True)

    url: str = "nats://127.0.0.1:4222"
    """Address of a server, or several of one cluster with commas between them."""
    seed_file: Path | None = None
    """File with the nkey seed of this user: `init-deploy` makes one for each service."""
    tls_ca_file: Path | None = None
    """Certificate of the authority that signed the server's certificate. The connection uses TLS if it is set."""
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    inbox_prefix: str = "_INBOX"
    """Prefix of reply subjects. A prefix per user keeps other users of the server from reading replies."""
    jetstream_domain: str | None = None
    """Domain under which the account of this user imports requests to JetStream, if JetStream is in another account."""
    connect_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds to wait for a server when a service starts."""
    disk: Path | None = None
    """Directory on the disk that NATS stores on, if this process sees it: new data is refused before that is full."""
    provision: bool = True
    """Create missing streams and buckets when a service starts."""
    replicas: int = 1
    """Copies of each stream and bucket, on as many servers of the cluster: 1, 3 or 5. `provision` sets it."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        split_addresses(value)
        return value

    @field_validator("replicas")
    @classmethod
    def _check_replicas(cls, value: int) -> int:
        if value not in _REPLICAS:
            raise ValueError("the number of copies is 1, 3 or 5")
        return value

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the servers."""
        return split_addresses(self.url)


def split_addresses(url: str) -> tuple[str, ...]:
    """Return the addresses of servers in a list with commas.

    Raises:
        ValueError: One is no address of a NATS server. The message does not repeat it: it may hold a password.
    """
    addresses = tuple(part.strip() for part in url.split(","))
    for number, address in enumerate(addresses, start=1):
        if not _is_address(address):
            place = f"address {number} of {len(addresses)} is" if len(addresses) > 1 else "it is"
            raise ValueError(f"{place} not of the form nats://HOST:PORT; commas part several addresses")
    return addresses


def _is_address(address: str) -> bool:
    try:
        uri = urlsplit(address if "://" in address else f"nats://{address}")
        return (
            uri.scheme in _SCHEMES
            and _HOST.fullmatch(uri.hostname or "") is not None
            and uri.port != 0  # raises ValueError for what is no port
            and not (uri.path.strip("/") or uri.query or uri.fragment)
            and not any(character.isspace() for character in address)
        )
    except ValueError:
        return False


def _hide_credentials(addresses: Sequence[str]) -> str:
    return ", ".join(re.sub(r"//.*@", "//", address) for address in addresses)


class BusUnreachableError(Exception):
    """No NATS server answers at the configured address."""


class BusCredentialsError(BusUnreachableError):
    """A file of the settings holds no usable seed or certificate."""


@dataclass(frozen=True, slots=True)
class Bus:
    """The connection of a process, and what services do on it."""

    client: Client
    jetstream: JetStreamContext
    jetstream_api: str
    """Prefix of the subjects of the JetStream API: `$JS.API`, or that of the domain."""
    caller: Caller
    metrics: BusMetrics
    local_endpoints: LocalEndpoints
    disk: StorageRoom | None = None
    """Room for new data on the disk of NATS; None if it is not known."""
    local_lines: dict[str, Callable[[bytes], Awaitable[bytes]]] = field(default_factory=dict)
    """Work lines that are answered in this process, by subject: their requests need not travel (ADR 0020)."""


@asynccontextmanager
async def open_bus(
    settings: BusSettings,
    name: str,
    registry: CollectorRegistry,
    disk: StorageRoom | None = None,
    *,
    has_replicas: bool = False,
) -> AsyncGenerator[Bus]:
    """Connect, and drain the connection at the end of the context.

    `disk` makes requests that store data, and writes to JetStream, fail with `storage_full` while it is full.
    `has_replicas` says that other processes have the services of this one too: a request over the bus may be theirs.

    Raises:
        BusUnreachableError: No server accepted the connection within `settings.connect_timeout_s`.
        BusCredentialsError: The seed or the certificate cannot be read.
    """
    client = Client()
    caller: Caller | None = None

    async def on_error(error: Exception) -> None:
        if _LATE_REPLY.search(str(error)):
            log.info("late_reply_dropped", error=str(error))
        else:
            log.warning("nats_error", error=repr(error))

    async def on_disconnected() -> None:
        if not client.is_draining and not client.is_closed:
            log.warning("nats_disconnected")
        if caller is not None:
            caller.connection_lost()

    async def on_reconnected() -> None:
        log.info("nats_reconnected")
        if caller is not None:
            caller.connection_restored()

    await _connect(client, settings, name, on_error, on_disconnected, on_reconnected)
    local_endpoints: LocalEndpoints = {}
    caller = Caller(client, local_endpoints, has_replicas=has_replicas)
    try:
        await caller.open()
        jetstream = client.jetstream(timeout=5, domain=settings.jetstream_domain)
        api = f"$JS.{settings.jetstream_domain}.API" if settings.jetstream_domain else "$JS.API"
        yield Bus(client, jetstream, api, caller, BusMetrics(registry), local_endpoints, disk)
    finally:
        await _close_connection(client)


async def _connect(
    client: Client,
    settings: BusSettings,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_disconnected: Callable[[], Awaitable[None]],
    on_reconnected: Callable[[], Awaitable[None]],
) -> None:
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await client.connect(
                list(settings.addresses),
                name=name,
                user=settings.user,
                password=_reveal(settings.password),
                token=_reveal(settings.token),
                nkeys_seed_str=_read_seed(settings.seed_file),
                tls=make_tls_context(settings.tls_ca_file),
                tls_handshake_first=settings.tls_ca_file is not None,  # nothing is sent in the clear
                inbox_prefix=settings.inbox_prefix,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type]  # seconds; a float works, its annotation is narrow
                ping_interval=5,  # a server that hangs is left after 15 s
                drain_timeout=20,
                error_cb=on_error,
                disconnected_cb=on_disconnected,
                reconnected_cb=on_reconnected,
            )
    except (TimeoutError, NatsError, OSError) as error:
        where = _hide_credentials(settings.addresses)
        raise BusUnreachableError(
            f"no NATS server at {where}: start one, or set SKILLBUS_NATS_URL ({error!r})"
        ) from error


async def _close_connection(client: Client) -> None:
    # A lost connection cannot be closed properly, which loses nothing. uvloop raises RuntimeError for it.
    with suppress(OSError, NatsError, RuntimeError):
        if client.is_connected:
            await client.drain()
        elif not client.is_closed:
            await client.close()


async def confirm_subscriptions(client: Client) -> None:
    """Wait until the server knows all subscriptions made so far.

    nats-py sends the PING of a flush ahead of commands that it has not written yet. They are written by the time of the
    PONG, so a second PING comes after them.
    """
    await client.flush()
    await client.flush()


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _read_seed(path: Path | None) -> str | None:
    if path is None:
        return None
    # It imports PyNaCl, which only users with a seed need.
    import nkeys  # noqa: PLC0415

    try:
        seed = path.read_text("ascii").strip()
        nkeys.from_seed(bytearray(seed.encode())).wipe()
    except (OSError, UnicodeDecodeError, nkeys.NkeysError, ValueError) as error:
        # The error of a seed that does not parse may quote it.
        raise BusCredentialsError(
            f"SKILLBUS_NATS_SEED_FILE: {path} is not a readable file with the seed of an nkey user "
            f"({type(error).__name__}); `skillbus init-deploy` makes the files"
        ) from None
    return seed


def make_tls_context(ca_file: Path | None) -> ssl.SSLContext | None:
    """Return a context that trusts the authority of a file and no other; None without a file.

    Raises:
        BusCredentialsError: The file cannot be read.
    """
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise BusCredentialsError(
            f"SKILLBUS_NATS_TLS_CA_FILE: {ca_file} is not a readable certificate in PEM form ({type(error).__name__})"
        ) from None
