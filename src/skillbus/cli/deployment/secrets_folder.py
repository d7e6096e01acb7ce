"""The folder of secrets of a Compose deployment: keys of the bus users, keys of Qdrant and the gateway, certificates.

The folder is readable by its owner only (0700). Files that a container reads are 0644 in it: containers run as another
user id, and a bind mount keeps the mode. Files that only people and Compose read are 0600.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import nkeys

from skillbus.cli.deployment.certificates import KeyedCertificate, make_authority, make_server_certificate
from skillbus.cli.errors import LocalFileError
from skillbus.contracts.bus_users import BUS_USERS
from skillbus.contracts.documents.nats_accounts import USER_KEYS_FILE, make_key_variable

_FOR_CONTAINERS: Final = 0o644
_FOR_PEOPLE: Final = 0o600
_PEOPLE: Final = frozenset({"operator", "client"})
"""Users of the bus that no container of the deployment uses."""
_TLS_BLOCK: Final = """\
tls {
  cert_file: "/etc/skillbus/nats-tls.pem"
  key_file: "/etc/skillbus/nats-tls.key"
  handshake_first: true
}
"""


class SecretsFolder:
    """Writes the files that are missing. Files that exist stay as they are, unless `rotate` is given."""

    def __init__(self, folder: Path, *, rotate: bool = False) -> None:
        self._folder = folder
        self._rotate = rotate
        self.written: list[str] = []
        """Names of the files that were made, in order."""

    def write_all(self, tls_hosts: Sequence[str]) -> None:
        """Make what is missing. With `tls_hosts`, also certificates for a NATS server under these names.

        Raises:
            LocalFileError: The folder cannot be used.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            user_keys = self._write_user_seeds()
            self._write("owner-key", _FOR_CONTAINERS, _make_key)
            self._write_qdrant_keys()
            if tls_hosts:
                self._write_certificates(tls_hosts)
            tls = _TLS_BLOCK if (self._folder / "nats-tls.pem").is_file() else ""
            # Derived from the seeds, and public: it is written again when a version adds a user.
            self._replace(USER_KEYS_FILE, f"{user_keys}{tls}".encode(), _FOR_CONTAINERS)
        except OSError as error:
            raise LocalFileError(f"{self._folder}: {error.strerror}", "Choose another folder with --folder.") from error
        except (nkeys.NkeysError, TypeError, ValueError) as error:
            # Without the error's text: it may quote the secret.
            raise LocalFileError(
                f"{self._folder}: a file does not hold what this command writes ({type(error).__name__}).",
                "Delete the damaged file, or make everything new with --rotate.",
            ) from None

    def _write_user_seeds(self) -> str:
        lines = []
        for user in BUS_USERS:
            mode = _FOR_PEOPLE if user.name in _PEOPLE else _FOR_CONTAINERS
            seed = self._write(f"nats-{user.name}.seed", mode, _make_seed)
            pair = nkeys.from_seed(bytearray(seed.strip()))
            lines.append(f"{make_key_variable(user.name)}: {pair.public_key.decode()}\n")
            pair.wipe()
        return "".join(lines)

    def _write_qdrant_keys(self) -> None:
        keys = {name: self._write(name, _FOR_CONTAINERS, _make_key) for name in ("qdrant-key", "qdrant-read-only-key")}
        environment = (
            f"QDRANT__SERVICE__API_KEY={keys['qdrant-key'].decode().strip()}\n"
            f"QDRANT__SERVICE__READ_ONLY_API_KEY={keys['qdrant-read-only-key'].decode().strip()}\n"
        )
        self._replace("qdrant.env", environment.encode(), _FOR_PEOPLE)

    def _write_certificates(self, hosts: Sequence[str]) -> None:
        pair = self._write_pair("ca", _FOR_PEOPLE, make_authority)
        self._write_pair("nats-tls", _FOR_CONTAINERS, lambda: make_server_certificate(pair, hosts))

    def _write_pair(self, name: str, key_mode: int, make: Callable[[], KeyedCertificate]) -> KeyedCertificate:
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        if certificate.is_file() and key.is_file() and not self._rotate:
            return KeyedCertificate(certificate.read_bytes(), key.read_bytes())
        made = make()
        self._replace(key.name, made.private_key, key_mode)
        self._replace(certificate.name, made.certificate, _FOR_CONTAINERS)
        return made

    def _write(self, name: str, mode: int, make: Callable[[], bytes]) -> bytes:
        path = self._folder / name
        if path.exists() and not self._rotate:
            return path.read_bytes()
        content = make()
        self._replace(name, content, mode)
        return content

    def _replace(self, name: str, content: bytes, mode: int) -> None:
        """Write a file that appears complete and with its mode, or not at all. An equal file is left alone."""
        path = self._folder / name
        if path.is_file() and path.read_bytes() == content:
            path.chmod(mode)
            return
        draft = self._folder / f".{name}.new"
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        draft.chmod(mode)
        draft.replace(path)
        self.written.append(name)


def _make_seed() -> bytes:
    return bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)) + b"\n"


def _make_key() -> bytes:
    return secrets.token_hex(32).encode() + b"\n"
