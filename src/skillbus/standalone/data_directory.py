"""Data directory: a lock for one process at a time, the owner's key, and files with the addresses and credentials."""

import fcntl
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skillbus.common.runner import StartError

_LOCK: Final = "skillbus.lock"
_CONNECTION: Final = "connection.json"
_CURL_HEADER: Final = "auth.header"
_OWNER_KEY: Final = "owner.key"
_PRIVATE: Final = 0o600


@contextmanager
def lock_data_directory(data: Path) -> Generator[None]:
    """Lock a data directory while the context is open. It is created if absent.

    Raises:
        StartError: Another process has locked it, or it cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = (data / _LOCK).open("a+")
    except OSError as error:
        raise StartError(f"cannot use {data} as data directory: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise StartError(
                f"{data} is in use by another skillbus (process {pid}): stop it, or choose another --data"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def load_owner_key(data: Path) -> str:
    """Return the owner's key of a data directory. The first call makes it: 256 random bits, for its user only.

    Raises:
        StartError: The file cannot be read or written, or holds no key.
    """
    path = data / _OWNER_KEY
    try:
        if not path.exists():
            _write_private(path, f"skb_owner_{secrets.token_urlsafe(32)}\n")
        path.chmod(_PRIVATE)
        key = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot use the owner's key in {path}: {type(error).__name__}") from error
    if not key:
        raise StartError(f"{path} is empty: remove it, and the next start makes a new owner's key")
    return key


@contextmanager
def write_connection_note(
    data: Path, http_url: str, nats_url: str, nats_token: str, api_key: str | None
) -> Generator[None]:
    """Write how other programs of the same user reach HTTP and NATS, and remove it at the end.

    `connection.json` has the addresses and credentials; `auth.header` has the owner's key as `curl -H @file` reads it.
    A key in a file is in no list of processes, where every user of the machine could read it.
    """
    note: dict[str, str | int] = {
        "http_url": http_url,
        "nats_url": nats_url,
        "nats_token": nats_token,
        "pid": os.getpid(),
    }
    written = [data / _CONNECTION, data / _CURL_HEADER]
    for path in written:
        path.unlink(missing_ok=True)
    if api_key is not None:
        note["api_key"] = api_key
        _write_private(data / _CURL_HEADER, f"Authorization: Bearer {api_key}\n")
    _write_private(data / _CONNECTION, json.dumps(note, indent=2))
    try:
        yield
    finally:
        for path in written:
            path.unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    """Write a new file that only its user can read. Raises FileExistsError if it exists."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as file:
        file.write(text)
