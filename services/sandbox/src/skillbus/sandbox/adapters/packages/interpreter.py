"""Version and binary interface of an interpreter."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesUnavailable

_WITHIN_S: Final = 10.0
_PYTHON_QUERY: Final = (
    "import sys,platform;print(*sys.version_info[:3],sys.implementation.cache_tag,platform.machine())"
)
_NODE_QUERY: Final = "console.log(process.versions.node.replaceAll('.',' '),process.versions.modules,process.arch)"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Interpreter that packages are installed for."""

    path: Path
    version: tuple[int, ...]
    identity: str
    """Version, binary interface and processor architecture."""


async def query_interpreter(path: Path, runtime: Runtime) -> Interpreter:
    """Run an interpreter of Python or Node to find its version.

    Raises:
        DependenciesUnavailable: The interpreter does not answer.
    """
    argv = ("-I", "-S", "-c", _PYTHON_QUERY) if runtime is Runtime.PYTHON else ("-e", _NODE_QUERY)
    try:
        process = await asyncio.create_subprocess_exec(
            path, *argv, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError as error:
        raise DependenciesUnavailable(f"packages are for {path}, which cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_WITHIN_S):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise DependenciesUnavailable(f"{path} does not report its version", retryable=True) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    words = output.decode(errors="replace").split()
    if process.returncode != 0 or len(words) < 3:
        raise DependenciesUnavailable(f"{path} does not report its version")
    return Interpreter(path, tuple(int(word) for word in words[:3] if word.isdigit()), " ".join(words))
