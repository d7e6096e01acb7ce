"""Dependencies of scripts: declared by the skill, provided as a read-only layer of packages.

A Python script declares them inline (PEP 723) or in `requirements.txt`; a Node script in `package.json`, with versions
in `package-lock.json` next to it. The nearest file counts: in the script's folder or above it, up to the skill's root.
Bash scripts declare none.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TypeAlias

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesInvalid, SandboxError
from skillbus.sandbox.domain.packages.node import parse_package_json
from skillbus.sandbox.domain.packages.python import find_script_block, parse_requirements_txt, parse_script_block
from skillbus.sandbox.domain.packages.requirements import Requirements
from skillbus.sandbox.domain.skill import SkillSource

FILE_BYTES_MAX: Final = 1024 * 1024
"""Size limit of a declaring file; of a script, only this much is read."""

Reader: TypeAlias = Callable[[str], bytes | None]
"""Function that reads at most `FILE_BYTES_MAX` + 1 bytes of a file of the skill by path; None if it is missing."""


class Dependencies(Protocol):
    """Layers of packages, built on first use."""

    def open_layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AbstractAsyncContextManager[Path | None]:
        """Yield the folder with the packages of a script, None if it needs none; it exists while the context is open.

        Raises:
            DependenciesInvalid: The declaration cannot be used.
            DependenciesUnavailable: Installing failed, was cancelled, or took longer than `within_s` seconds.
        """
        ...


class NoDependencies:
    """`Dependencies` that installs nothing: scripts run with the packages of the machine."""

    @asynccontextmanager
    async def open_layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AsyncGenerator[None]:
        """Yield None."""
        yield None


def find_requirements(read: Reader, script: str, runtime: Runtime) -> Requirements | None:
    """Return the requirements of a script, None if it has none.

    Raises:
        DependenciesInvalid: With the file, the line and the reason.
    """
    match runtime:
        case Runtime.PYTHON:
            return _find_python(read, script)
        case Runtime.NODE:
            return _find_node(read, script)
        case Runtime.BASH:
            return None


def _find_python(read: Reader, script: str) -> Requirements | None:
    block = find_script_block((read(script) or b"").decode(errors="replace"), script)
    if block is not None:
        return parse_script_block(block, script)
    for folder in _folders(script):
        text = _read_text(read, f"{folder}requirements.txt")
        if text is not None:
            return parse_requirements_txt(text, f"{folder}requirements.txt")
    return None


def _find_node(read: Reader, script: str) -> Requirements | None:
    for folder in _folders(script):
        text = _read_text(read, f"{folder}package.json")
        if text is not None:
            lock = _read_text(read, f"{folder}package-lock.json")
            return parse_package_json(text, lock, f"{folder}package.json", f"{folder}package-lock.json")
    return None


def _folders(script: str) -> Iterator[str]:
    """Yield the script's folder and its parents as path prefixes: `scripts/lib/`, `scripts/`, and the empty one."""
    for parent in PurePosixPath(script).parents:
        yield "" if str(parent) == "." else f"{parent}/"


def _read_text(read: Reader, path: str) -> str | None:
    data = read(path)
    if data is None:
        return None
    if len(data) > FILE_BYTES_MAX:
        raise DependenciesInvalid(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DependenciesInvalid(f"{path} is not UTF-8") from error


async def prepare_skill(
    skills: SkillSource, dependencies: Dependencies, project: str, name: str, within_s: float
) -> tuple[str, ...]:
    """Install the packages of each of a skill's scripts. Return one message per script that failed.

    Raises:
        RequestError: The skill is not available.
    """
    skill = await skills.get_skill(project, name)
    if not skill.enabled or not skill.entry_points:
        return ()
    refused = list[str]()
    async with skills.unpack_skill(skill) as folder:
        for script, runtime in dict.fromkeys((entry.script, entry.runtime) for entry in skill.entry_points):
            try:
                async with dependencies.open_layer(folder, script, runtime, within_s):
                    pass
            except SandboxError as error:
                refused.append(f"{script}: {error}")
    return tuple(refused)
