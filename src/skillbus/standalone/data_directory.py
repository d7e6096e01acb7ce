"""Data directory: a lock for one process at a time, and a file with the addresses and the NATS token."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from skillbus.common.runner import StartError

_LOCK: Final = "skillbus.lock"
_CONNECTION: Final = "connection.json"


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


@contextmanager
def write_connection_note(data: Path, http_url: str, nats_url: str, nats_token: str) -> Generator[None]:
    """Write `connection.json`, with which other programs of the same user reach NATS and HTTP; remove it at the end."""
    path = data / _CONNECTION
    with suppress(FileNotFoundError):
        path.unlink()
    note = {"http_url": http_url, "nats_url": nats_url, "nats_token": nats_token, "pid": os.getpid()}
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(note, file, indent=2)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
