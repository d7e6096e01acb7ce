"""Key of a server that the same user runs on this machine, from the file `connection.json` in its data directory."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

DATA_VARIABLE: Final = "SKILLBUS_DATA"
_NOTE: Final = "connection.json"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def read_local_key(url: str) -> str | None:
    """Return the key of the server at `url`, if it runs here on the data directory that commands use by default.

    The key goes to no other address, and to nobody who took the port after the server was killed.
    """
    path = Path(os.environ.get(DATA_VARIABLE) or "data") / _NOTE
    try:
        note = json.loads(path.read_text("utf-8"))
        key, pid, served = str(note["api_key"]), int(note["pid"]), str(note["http_url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return key if _split_address(url) == _split_address(served) and _is_running(pid) else None


def _split_address(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme, "localhost" if host in _LOOPBACK else host, parts.port


def _is_running(pid: int) -> bool:
    with suppress(PermissionError):  # it is another user's process, so it exists
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return pid > 0
