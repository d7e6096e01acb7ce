"""What an interpreter says of itself."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesUnavailable

_WITHIN_S: Final = 10.0
_PYTHON_ASKED: Final = (
    "import sys,platform;print(*sys.version_info[:3],sys.implementation.cache_tag,platform.machine())"
)
_NODE_ASKED: Final = "console.log(process.versions.node.replaceAll('.',' '),process.versions.modules,process.arch)"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One that packages are for."""

    path: Path
    version: tuple[int, ...]
    identity: str
    """Version, binary interface and processor."""


async def ask_interpreter(path: Path, runtime: Runtime) -> Interpreter:
    """Ask the interpreter of Python or Node.

    Raises:
        DependenciesUnavailable: when it does not answer.
    """
    argv = ("-I", "-S", "-c", _PYTHON_ASKED) if runtime is Runtime.PYTHON else ("-e", _NODE_ASKED)
    try:
        process = await asyncio.create_subprocess_exec(
            path, *argv, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError as error:
        raise DependenciesUnavailable(f"packages are for {path}, which cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_WITHIN_S):
            said, _ = await process.communicate()
    except TimeoutError as error:
        raise DependenciesUnavailable(f"{path} does not tell its version", retryable=True) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = said.decode(errors="replace").split()
    if process.returncode != 0 or len(words) < 3:
        raise DependenciesUnavailable(f"{path} does not tell its version")
    return Interpreter(path, tuple(int(word) for word in words[:3] if word.isdigit()), " ".join(words))
