"""The operator's file of MCP servers, edited on the machine of skillbus by the user who runs it."""

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Final

import typer
from pydantic import JsonValue

from skillbus.agent.adapters.disk_operator_file import read_operator_file
from skillbus.agent.domain.servers.operator_file import (
    MCP_FILE,
    SERVERS_MEMBER,
    OperatorFileError,
    parse_entries,
    parse_operator_file,
)
from skillbus.cli.errors import LocalFileError
from skillbus.cli.session import Session
from skillbus.client.local_server import is_loopback_url, read_local_server

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        envvar="SKILLBUS_AGENT_MCP_FILE",
        dir_okay=False,
        help="The operator's file of MCP servers. Default: mcp.json in the data directory.",
    ),
]
_LOCK: Final = "skillbus.lock"
_NEW_MODE: Final = 0o600
_LOCK_S: Final = 5.0
"""Longest wait for another command that writes the file."""
_LOCK_RETRY_S: Final = 0.05


def find_mcp_file(session: Session, file: Path | None) -> Path:
    """Return the file that the server of the session follows, on this machine.

    Raises:
        LocalFileError: The data directory is not one of skillbus, or the server of the session runs on another one.
    """
    if file is not None:
        return file
    data = session.data
    if not (data / _LOCK).exists():
        raise LocalFileError(
            f"{data} is not the data directory of a skillbus on this machine",
            "Commands are added where skillbus runs: give its --data, or the --file that its agent follows. Servers "
            "that run elsewhere are added with --url.",
        )
    server = session.connection.client.url
    try:
        local = read_local_server(data)
    except OSError as error:
        raise LocalFileError.from_os_error(data, error, "Run this as the user who runs it.") from error
    if local is None and not is_loopback_url(server):
        raise LocalFileError(
            f"no skillbus runs on {data}, and {server} is another machine's",
            "Leave out --server, or run this there.",
        )
    if local is not None and not local.serves(server):
        raise LocalFileError(
            f"the skillbus of {data} answers at {local.url}, not at {server}",
            f"Give --server {local.url}, or another --data.",
        )
    return data / MCP_FILE


def read_entries(file: Path) -> dict[str, JsonValue]:
    """Return the entries of the file by name; none if it does not exist. Raises LocalFileError."""
    return _read(file)[1]


def put_entries(file: Path, entries: Mapping[str, JsonValue]) -> None:
    """Add entries to the file, or replace those of the same names. All else in the file is kept.

    Raises:
        LocalFileError: The file cannot be used, belongs to another user, or would not be valid afterwards.
    """
    _edit(file, lambda known: known.update(entries))


def remove_entry(file: Path, name: str) -> None:
    """Remove an entry from the file. All else in the file is kept. Raises LocalFileError."""
    _edit(file, lambda known: known.pop(name, None))


def _edit(file: Path, change: Callable[[dict[str, JsonValue]], object]) -> None:
    try:
        _check_user(file)
        with _lock_folder(file.parent):
            document, entries = _read(file)
            change(entries)
            content = json.dumps({**document, SERVERS_MEMBER: entries}, indent=2, ensure_ascii=False).encode() + b"\n"
            parse_operator_file(content)
            _replace(file, content)
    except OperatorFileError as error:
        raise LocalFileError(f"{file}: {error}", "Nothing was written.") from error
    except OSError as error:
        raise LocalFileError.from_os_error(file, error) from error


def _check_user(file: Path) -> None:
    owned = file if file.exists() else file.parent
    if (owner := owned.stat().st_uid) != os.geteuid():
        raise LocalFileError(
            f"{owned} belongs to another user (uid {owner})",
            "Run this as the user who runs skillbus: its commands are started as that user.",
        )


def _read(file: Path) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    try:
        content = read_operator_file(file)
        if content is None:
            return {}, {}
        entries = parse_entries(content)
    except OperatorFileError as error:
        raise LocalFileError(str(error), "Nothing was changed.") from error
    document: dict[str, JsonValue] = json.loads(content)
    return document, entries


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one command at a time read, change and write. Raises LocalFileError after five seconds of waiting."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    until = time.monotonic() + _LOCK_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise LocalFileError(f"{folder} is locked by another program", "End it, and try again.") from None
                time.sleep(_LOCK_RETRY_S)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, content: bytes) -> None:
    """Write the whole file at once. A new one is for its user alone, and a link stays a link."""
    target = file.resolve()
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else _NEW_MODE
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as writer:  # mode 0600
        written = Path(writer.name)
        try:
            os.fchmod(writer.fileno(), mode)
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
            written.replace(target)
        except BaseException:
            written.unlink()
            raise
