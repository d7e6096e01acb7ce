"""Checks of the gateway's settings before it starts. They import no web framework."""

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from typing import Final

import structlog

from skillbus.common.http_server import PortInUseError, TlsFiles, check_port
from skillbus.common.runner import StartError
from skillbus.gateway.domain.access.startup import (
    GatewayError,
    HostUnknownError,
    OwnerKeyInvalidError,
    TlsFilesInvalidError,
    check_address,
    hash_owner_key,
)
from skillbus.gateway.settings import GatewaySettings

_TLS_IN_FRONT: Final = (
    "SKILLBUS_GATEWAY_TLS_IN_FRONT is set. Let nothing but the TLS proxy reach this address: "
    "whoever can listen on the way to it reads the keys"
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedStart:
    """Results of the checks before the start."""

    owner_digest: bytes | None = field(repr=False)
    """SHA-256 of the owner's key; None without one."""
    tls: TlsFiles | None
    """Files for HTTPS; None if HTTP is served."""


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
