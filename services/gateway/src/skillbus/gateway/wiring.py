"""Composition root of the gateway."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from starlette.types import ASGIApp

from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.common.bus.objects import ObjectStore, open_object_store
from skillbus.common.http_server import PortInUseError, TlsFiles, check_port, serve_http
from skillbus.common.runner import StartError
from skillbus.contracts.endpoint import Health
from skillbus.contracts.resources import PACKAGES, RUN_FILES
from skillbus.contracts.sandbox.run_history import RUN_PRINTED
from skillbus.gateway.adapters.api import build_app
from skillbus.gateway.adapters.boundary import HttpMetrics
from skillbus.gateway.adapters.guarded_route import GuardedRoute
from skillbus.gateway.adapters.kv_api_keys import open_api_keys
from skillbus.gateway.adapters.kv_sessions import open_sessions
from skillbus.gateway.adapters.mcp.endpoint import McpEndpoint, open_mcp_endpoint
from skillbus.gateway.adapters.project_caller import ProjectCaller
from skillbus.gateway.domain.access.authenticator import Authenticator
from skillbus.gateway.domain.access.key_registry import KeyRegistry
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.domain.access.session import SessionCookie, SessionRing
from skillbus.gateway.domain.access.session_registry import SessionRegistry
from skillbus.gateway.domain.access.startup import (
    GatewayError,
    HostUnknownError,
    OwnerKeyInvalidError,
    TlsFilesInvalidError,
    check_address,
    hash_owner_key,
)
from skillbus.gateway.domain.audit import SystemAuditor
from skillbus.gateway.domain.imports.tool_importer import ToolImporter
from skillbus.gateway.domain.knowledge import KnowledgeImporter
from skillbus.gateway.domain.package_installer import PackageInstaller
from skillbus.gateway.domain.readiness import Readiness
from skillbus.gateway.domain.skill_files import SkillFiles
from skillbus.gateway.domain.skill_runner import RemoteSkillRunner
from skillbus.gateway.domain.tool_calls import RemoteToolCaller
from skillbus.gateway.service.access.sessions import SessionRoutes
from skillbus.gateway.service.router import TAGS, GatewayParts, build_router
from skillbus.gateway.service.system import SystemRoutes
from skillbus.gateway.settings import GatewaySettings

_TLS_IN_FRONT: Final = (
    "SKILLBUS_GATEWAY_TLS_IN_FRONT is set. Let nothing but the TLS proxy reach this address: "
    "whoever can listen on the way to it reads the keys"
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """Running gateway."""

    url: str
    """Address that it listens on, with the actual port."""
    readiness: Readiness

    async def health(self) -> Health:
        """Return the health of the whole system."""
        return await self.readiness.check_health()


@dataclass(frozen=True, slots=True)
class CheckedStart:
    """Results of the checks before the start."""

    owner_digest: bytes | None = field(repr=False)
    """SHA-256 of the owner's key; None without one."""
    tls: TlsFiles | None
    """Files for HTTPS; None if HTTP is served."""


@asynccontextmanager
async def open_gateway(
    bus: Bus, settings: GatewaySettings, checked: CheckedStart | None = None
) -> AsyncGenerator[Gateway]:
    """Serve HTTP while the context is open. When it closes, the current requests are finished.

    `checked` is the result of `check_start` if the caller has called it before.

    Raises:
        StartError: The address is in use, or strangers could use it or read keys there, or the key cannot be used.
            Its cause is the reason.
    """
    if checked is None:
        checked = await check_start(settings)
    ring, session_ring = KeyRing(), SessionRing()
    readiness = Readiness(bus.caller, bus.client, bus.disk, timeout_s=settings.health_timeout_s)
    # Opened before the keys, whose reading is repeated with a line in the log: the buckets may not be made yet.
    stores = await open_object_store(bus, PACKAGES), await open_object_store(bus, RUN_FILES)
    try:
        async with (
            open_api_keys(bus, ring) as keys,
            open_sessions(bus, session_ring) as sessions,
            open_mcp_endpoint(settings.body_bytes, settings.run_body_bytes) as mcp,
        ):
            cookie = SessionCookie(is_secure=settings.tls_in_front or checked.tls is not None)
            authenticator = Authenticator(checked.owner_digest, ring, session_ring, cookie, keys.note_use)
            registry = SessionRegistry(sessions, authenticator)
            app = _build_app(bus, settings, stores, authenticator, KeyRegistry(keys), registry, readiness, mcp)
            # Starlette and uvicorn declare different types for ASGI messages; they are the same at run time.
            async with serve_http(app, settings.host, settings.port, checked.tls) as url:  # type: ignore[arg-type]
                yield Gateway(url, readiness)
    except PortInUseError as error:
        raise StartError(str(error)) from error


async def check_start(settings: GatewaySettings) -> CheckedStart:
    """Check the owner's key, the address, the files for TLS and the port.

    HTTP beyond loopback, which the setting `tls_in_front` allows, is logged as a warning.

    Raises:
        StartError: Strangers could use the address or read keys there, the host or the key cannot be used, or the
            port is in use.
    """
    try:
        owner_digest = hash_owner_key(await asyncio.to_thread(read_owner_key, settings))
        tls = await asyncio.to_thread(load_tls_files, settings)
        is_local = check_address(
            settings.host,
            await find_addresses(settings.host),
            has_key=owner_digest is not None,
            without_key=settings.no_key,
            has_tls=settings.tls_in_front or tls is not None,
        )
        check_port(settings.host, settings.port)
    except (GatewayError, PortInUseError) as error:
        raise StartError(str(error)) from error
    if tls is None and not is_local:
        log.warning("http_beyond_loopback", host=settings.host, reason=_TLS_IN_FRONT)
    return CheckedStart(owner_digest, tls)


async def find_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of a host.

    Raises:
        HostUnknownError: It has none, or they cannot be looked up now.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError for a name that cannot be encoded
        raise HostUnknownError(host, getattr(error, "strerror", None) or "not a name") from error
    return tuple(str(address[4][0]) for address in found)


def _build_app(
    bus: Bus,
    settings: GatewaySettings,
    stores: tuple[ObjectStore, ObjectStore],
    authenticator: Authenticator,
    keys: KeyRegistry,
    sessions: SessionRegistry,
    readiness: Readiness,
    mcp: McpEndpoint,
) -> ASGIApp:
    packages, run_files = stores
    caller = ProjectCaller(bus.caller)
    installer = PackageInstaller(
        caller,
        packages,
        max_bytes=settings.package_bytes,
        patience_s=settings.upload_patience_s,
    )
    open_feed = partial(subscribe_to_feed, bus.client, RUN_PRINTED)
    runner = RemoteSkillRunner(caller, run_files, open_feed, artifact_bytes=settings.artifact_bytes)
    recorder = ActRecorder(AuditStream(bus), "gateway")
    parts = GatewayParts(
        caller,
        installer,
        SkillFiles(caller, packages),
        runner,
        RemoteToolCaller(caller, run_files, open_feed, file_bytes=settings.artifact_bytes),
        ToolImporter(caller, patience_s=settings.upload_patience_s),
        KnowledgeImporter(caller, patience_s=settings.upload_patience_s),
        keys,
        SessionRoutes(sessions, authenticator.session_cookie),
        recorder,
        SystemRoutes(readiness, SystemAuditor(caller), bus.metrics.registry),
    )
    router = build_router(parts, GuardedRoute)
    return build_app(router, TAGS, settings, authenticator, recorder, HttpMetrics(bus.metrics.registry), mcp)


def load_tls_files(settings: GatewaySettings) -> TlsFiles | None:
    """Return the files for HTTPS after loading them once; None if HTTP is served.

    Raises:
        TlsFilesInvalidError: One is missing, cannot be read, or does not fit the other.
    """
    certificate, private_key = settings.tls_certificate, settings.tls_private_key
    if certificate is None and private_key is None:
        return None
    if certificate is None or private_key is None:
        raise TlsFilesInvalidError(
            "HTTPS needs both: SKILLBUS_GATEWAY_TLS_CERTIFICATE and SKILLBUS_GATEWAY_TLS_PRIVATE_KEY"
        )
    try:
        # An empty password: without one, an encrypted key would be asked for at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, password="")
    except (OSError, ValueError) as error:
        raise TlsFilesInvalidError(
            f"cannot serve HTTPS with {certificate} and {private_key}: {type(error).__name__}. They must be a "
            "certificate and its private key, as PEM files that this process may read"
        ) from error
    return TlsFiles(certificate, private_key)


def read_owner_key(settings: GatewaySettings) -> str | None:
    """Return the owner's key of the settings, from its file if it is in one; None if none is set.

    Raises:
        OwnerKeyInvalidError: The file cannot be read.
    """
    if settings.owner_key is not None:
        return settings.owner_key.get_secret_value().strip()
    if settings.owner_key_file is None:
        return None
    try:
        return settings.owner_key_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OwnerKeyInvalidError(
            f"cannot read {settings.owner_key_file}: {type(error).__name__}. "
            "SKILLBUS_GATEWAY_OWNER_KEY_FILE must name a text file that this process may read"
        ) from error
