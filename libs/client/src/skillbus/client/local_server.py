"""The skillbus that the same user runs on this machine, as `connection.json` in its data directory describes it."""

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

DATA_VARIABLE: Final = "SKILLBUS_DATA"
URL_VARIABLE: Final = "SKILLBUS_URL"
KEY_VARIABLES: Final = ("SKILLBUS_API_KEY", "SKILLBUS_OWNER_KEY")
DEFAULT_URL: Final = "http://127.0.0.1:8080"
_NOTE: Final = "connection.json"
_LAST_DATA: Final = Path("skillbus", "last-data")
"""File in the user's folder of state that names the data directory of the skillbus that was started last."""
_WRITE_BY_OTHERS: Final = 0o022
_LOOPBACK: Final = "localhost"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Address and key of a running server."""

    url: str
    key: str | None = field(repr=False)
    """The owner's key; None if the server needs none."""

    def serves(self, url: str) -> bool:
        """Return True if the address is this server's, under any name of the loopback."""
        return _split_address(url) == _split_address(self.url)


def find_data_directory() -> Path:
    """Return the data directory that commands use unless they are given another.

    It is `SKILLBUS_DATA`, or else `./data`; but if no server runs on `./data`, that of the one that this user started
    last and that still runs.
    """
    if named := os.environ.get(DATA_VARIABLE):
        return Path(named)
    here, last = Path("data"), _read_last_data()
    return here if last is None or _read_own_server(here) or not _read_own_server(last) else last


def read_local_server(data: Path) -> LocalServer | None:
    """Return the server that runs on a data directory; None if none does.

    A note of a server that was killed does not count: somebody else may have taken its port. Nor does one that another
    user could have written, in a folder that both use: commands would send their keys to the address in it.

    Raises:
        OSError: The note cannot be read, because it is another user's.
    """
    try:
        note = json.loads(_read_own_file(data / _NOTE))
        url, key, pid = str(note["http_url"]), note.get("api_key"), int(note["pid"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    if not _is_running(pid):
        return None
    for anywhere, here in (("//0.0.0.0", "//127.0.0.1"), ("//[::]", "//[::1]")):
        url = url.replace(anywhere, here, 1)
    return LocalServer(url, None if key is None else str(key))


def find_server(url: str | None = None, key: str | None = None, data: Path | None = None) -> LocalServer:
    """Return the server to ask, and its key.

    The address is the given one, that of `SKILLBUS_URL`, that of the server on this machine, or the default. The key is
    the given one, that of `SKILLBUS_API_KEY`, or that of the server on this machine if it is the one to be asked.
    The server on this machine is the one that runs on `data`, or without it on `find_data_directory`.
    """
    local = _read_own_server(data or find_data_directory())
    url = url or os.environ.get(URL_VARIABLE) or (DEFAULT_URL if local is None else local.url)
    key = key or next(filter(None, map(os.environ.get, KEY_VARIABLES)), None)
    return LocalServer(url, key) if key is not None else use_local_key(url, local)


def remember_data_directory(data: Path) -> None:
    """Write down the data directory of a skillbus that starts, for commands in other folders.

    Raises:
        OSError: It cannot be written. Commands then need `--data`.
    """
    place = _find_state_folder() / _LAST_DATA
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{data.resolve()}\n", "utf-8")


def _read_last_data() -> Path | None:
    try:
        return Path((_find_state_folder() / _LAST_DATA).read_text("utf-8").rstrip("\n"))
    except (OSError, UnicodeDecodeError, RuntimeError):  # RuntimeError: the user has no home
        return None


def _find_state_folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")


def _read_own_server(data: Path) -> LocalServer | None:
    """Return the server that runs on a data directory; None also if it is another user's."""
    with suppress(OSError):
        return read_local_server(data)
    return None


def use_local_key(url: str, local: LocalServer | None) -> LocalServer:
    """Return the server at an address, with the key of the one on this machine if it is that one.

    Over HTTP the key goes to the address that the server itself wrote down: another user of the machine could listen
    on another address of `localhost`.
    """
    if local is None or not local.serves(url):
        return LocalServer(url, None)
    return LocalServer(local.url if local.url.startswith("http:") else url, local.key)


def is_loopback_url(url: str) -> bool:
    """Return True if the address is one of this machine's loopback."""
    return _split_address(url)[1] == _LOOPBACK


def _split_address(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path. All names of the loopback are `localhost`."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", -1
    with suppress(ValueError):
        port = parts.port or _PORTS.get(parts.scheme, -1)
    with suppress(ValueError):
        if ip_address(host).is_loopback:
            host = _LOOPBACK
    return parts.scheme, host, port, parts.path.rstrip("/")


def _read_own_file(path: Path) -> bytes:
    """Return the content of a file that only this user or root can write; nothing if others can.

    Raises:
        OSError: It cannot be read, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_own = status.st_uid in {os.geteuid(), 0} and not status.st_mode & _WRITE_BY_OTHERS
        return file.read() if is_own and stat.S_ISREG(status.st_mode) else b""


def _is_running(pid: int) -> bool:
    """Return True if the process exists. One of another user is not the server, whose note is this user's."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    return pid > 0
