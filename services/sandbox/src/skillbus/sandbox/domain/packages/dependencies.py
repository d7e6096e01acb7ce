"""Dependencies of scripts: declared by the skill, provided as a read-only layer of packages.

A Python script declares them inline (PEP 723) or in `requirements.txt`; a Node script in `package.json`, with versions
in `package-lock.json` next to it. The nearest file counts: in the script's folder or above it, up to the skill's root.
Bash scripts declare none.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
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


class NoDependencies:
    """`Dependencies` that installs nothing: scripts run with the packages of the machine."""

    @asynccontextmanager
    async def open_layer(
        self, skill_root: Path, script: str, runtime: Runtime, within_s: float, cancelled: asyncio.Event | None = None
    ) -> AsyncGenerator[None]:
        """Yield None."""
        yield None


def find_requirements(read: Reader, script: str, runtime: Runtime) -> Requirements | None:
    """Return the requirements of a script, None if it has none. Raises DependenciesInvalid with place and reason."""
    if runtime is Runtime.BASH:
        return None
    if runtime is Runtime.PYTHON:
        block = find_script_block((read(script) or b"").decode(errors="replace"), script)
        if block is not None:
            return parse_script_block(block, script)
    for parent in PurePosixPath(script).parents:
        where = str(parent / ("requirements.txt" if runtime is Runtime.PYTHON else "package.json"))
        text = _read_text(read, where)
        if text is not None and runtime is Runtime.PYTHON:
            return parse_requirements_txt(text, where)
        if text is not None:
            where_lock = str(parent / "package-lock.json")
            return parse_package_json(text, _read_text(read, where_lock), where, where_lock)
    return None


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

    Raises RequestError if the skill is not available.
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
