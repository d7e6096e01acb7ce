"""What a script needs beside its skill: declared by the skill, had as a read-only layer of packages.

A Python script declares it in itself (PEP 723), or `requirements.txt` does; for Node `package.json` does, and
`package-lock.json` beside it says which versions. The file nearest to the script counts: in its folder, or in one above
it, up to the skill's root. Bash scripts declare nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TypeAlias

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesInvalid
from skillbus.sandbox.domain.packages.node import node_requirements
from skillbus.sandbox.domain.packages.python import python_requirements, script_block, script_requirements
from skillbus.sandbox.domain.packages.requirements import Requirements

FILE_BYTES_MAX: Final = 1024 * 1024
"""Of a file that declares dependencies; of a script as much is looked at."""

Reader: TypeAlias = Callable[[str], bytes | None]
"""The first `FILE_BYTES_MAX` bytes and one more of a file of the skill, by its path in it; None when there is none."""


class Dependencies(Protocol):
    """Layers of packages, built when they are first asked for."""

    def layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AbstractAsyncContextManager[Path | None]:
        """The folder with what a script of an unpacked skill needs, which stays while the context is open.

        None for a script that needs nothing.

        Raises:
            DependenciesInvalid: What the skill declares cannot be used.
            DependenciesUnavailable: It cannot be had, or was not there in `within_s` seconds or when it was cancelled.
        """
        ...


class NoDependencies:
    """`Dependencies` where the operator wants none: scripts run with what the machine has."""

    @asynccontextmanager
    async def layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AsyncGenerator[None]:
        """None."""
        yield None


def requirements_of(read: Reader, script: str, runtime: Runtime) -> Requirements | None:
    """What a script needs; None when that is nothing.

    Raises:
        DependenciesInvalid: with the file, the line and the reason.
    """
    match runtime:
        case Runtime.PYTHON:
            return _of_python(read, script)
        case Runtime.NODE:
            return _of_node(read, script)
        case Runtime.BASH:
            return None


def _of_python(read: Reader, script: str) -> Requirements | None:
    block = script_block((read(script) or b"").decode(errors="replace"), script)
    if block is not None:
        return script_requirements(block, script)
    for folder in _folders(script):
        text = _text(read, f"{folder}requirements.txt")
        if text is not None:
            return python_requirements(text, f"{folder}requirements.txt")
    return None


def _of_node(read: Reader, script: str) -> Requirements | None:
    for folder in _folders(script):
        text = _text(read, f"{folder}package.json")
        if text is not None:
            lock = _text(read, f"{folder}package-lock.json")
            return node_requirements(text, lock, f"{folder}package.json", f"{folder}package-lock.json")
    return None


def _folders(script: str) -> Iterator[str]:
    """Folders of the script and above it, as prefixes of a path: `scripts/lib/`, `scripts/`, and the empty one."""
    for parent in PurePosixPath(script).parents:
        yield "" if str(parent) == "." else f"{parent}/"


def _text(read: Reader, path: str) -> str | None:
    data = read(path)
    if data is None:
        return None
    if len(data) > FILE_BYTES_MAX:
        raise DependenciesInvalid(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DependenciesInvalid(f"{path} is not UTF-8") from error
