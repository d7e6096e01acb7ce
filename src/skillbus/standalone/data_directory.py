"""Data directory: a lock for one process at a time, the owner's key, and files with the addresses and credentials."""

import errno
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

from skillbus.common.runner import StartError

_LOCK: Final = "skillbus.lock"
_CONNECTION: Final = "connection.json"
_CURL_HEADER: Final = "auth.header"
_OWNER_KEY: Final = "owner.key"
_PRIVATE: Final = 0o600
_RIGHTS_OF_OTHERS: Final = 0o077
_FOLDER_ADVICE: Final = "Give it to this user (chown -R), or choose another --data."

log = structlog.get_logger(__name__)


@contextmanager
def lock_data_directory(data: Path) -> Generator[None]:
    """Lock a data directory while the context is open. It is created if absent.

    Raises:
        StartError: Another process has locked it, or it cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(os.open(data / _LOCK, os.O_RDWR | os.O_CREAT | os.O_APPEND, _PRIVATE), "a+")
    except OSError as error:
        raise StartError(f"cannot use {data} as data directory: {error.strerror}. {_FOLDER_ADVICE}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise StartError(
                f"{data} is in use by another skillbus (process {pid}): stop it, or choose another --data"
            ) from None
        _check_folders(data)
        with suppress(OSError):  # on a full disk only the message above lacks the process
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        yield


def _check_folders(data: Path) -> None:
    """Raise StartError unless this process may use all folders of services in a data directory."""
    for folder in (path for path in (*data.iterdir(), *data.glob("nats/*")) if path.is_dir()):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise StartError(f"cannot read and write {folder}: {os.strerror(errno.EACCES)}. {_FOLDER_ADVICE}")


def load_owner_key(data: Path) -> str:
    """Return the owner's key of a data directory. The first call makes it: 256 random bits, for its user only.

    Raises:
        StartError: The file cannot be read or written, is not this user's alone, or holds no key.
    """
    path = data / _OWNER_KEY
    try:
        try:
            content = _read_private(path)
        except FileNotFoundError:
            _write_private(path, f"skb_owner_{secrets.token_urlsafe(32)}\n")
            content = _read_private(path)
        key = content.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        advice = "Make it readable for this user, or remove it for a new owner's key."
        raise StartError(f"cannot use the owner's key in {path}: {reason}. {advice}") from error
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

    Raises:
        StartError: A file cannot be written. None is left.
    """
    note: dict[str, str | int] = {
        "http_url": http_url,
        "nats_url": nats_url,
        "nats_token": nats_token,
        "pid": os.getpid(),
    }
    texts = {}
    if api_key is not None:
        note["api_key"] = api_key
        texts[_CURL_HEADER] = f"Authorization: Bearer {api_key}\n"
    texts[_CONNECTION] = json.dumps(note, indent=2)
    try:
        _remove_note(data)  # of a process that was killed
        try:
            for name, text in texts.items():
                _write_private(data / name, text)
        except OSError as error:
            raise StartError(f"cannot write {data / name}: {error.strerror}") from error
        yield
    finally:
        _remove_note(data)


def _remove_note(data: Path) -> None:
    for path in (data / _CONNECTION, data / _CURL_HEADER):
        try:
            path.unlink(missing_ok=True)
            _name_new(path).unlink(missing_ok=True)
        except OSError as error:
            log.warning("connection_note_not_removed", path=str(path), error=type(error).__name__)


def _read_private(path: Path) -> bytes:
    """Read a file that must be its user's alone.

    Raises:
        StartError: It is a link, a folder or another thing, belongs to someone else, or others have rights to it.
        OSError: It cannot be opened.
    """
    try:
        # Not blocking, because a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StartError(_explain_not_private(path, "is no plain file")) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StartError(_explain_not_private(path, "is no plain file"))
        if status.st_uid != os.geteuid():
            raise StartError(_explain_not_private(path, "belongs to another user"))
        if status.st_mode & _RIGHTS_OF_OTHERS:
            raise StartError(_explain_not_private(path, "is open to other users, who may know the key"))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _explain_not_private(path: Path, fault: str) -> str:
    return f"{path} {fault}: remove it for a new owner's key, or make it a file of your own and run `chmod 600 {path}`"


def _name_new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its user can read. Readers find the one of before, or the whole new one."""
    new = _name_new(path)
    new.unlink(missing_ok=True)  # of a process that was killed
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
