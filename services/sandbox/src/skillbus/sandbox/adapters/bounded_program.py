"""A program of the operator's that is run for a while: bounded in time, in what it writes and in what it says."""

import asyncio
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.layer_tree import check_size, measure
from skillbus.sandbox.domain.errors import DependenciesUnavailable

_LOOK_EVERY_S: Final = 0.25
"""How often the folder is measured; a file alone is bounded by the kernel."""
_SAID_MAX: Final = 64 * 1024
_NICE: Final = 10
"""Runs go first."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, in its working folder, with nothing of this process's environment."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


async def run_program(program: Program, wall_s: float, bytes_max: int) -> tuple[int, str]:
    """Run it to its end: its exit code, and what it said on both streams.

    Raises:
        DependenciesUnavailable: when it cannot be started, took longer than `wall_s` seconds, or wrote more than
            `bytes_max` below its folder. Nothing of it runs any more then.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *program.argv,
            cwd=program.folder,
            env=dict(program.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise DependenciesUnavailable(f"{program.argv[0]} cannot be started: {error.strerror}") from error
    try:
        _bound(process.pid, bytes_max)
        async with asyncio.timeout(wall_s):
            return await _follow(process, program.folder, bytes_max)
    except TimeoutError as error:
        raise DependenciesUnavailable(
            f"the packages were not there after {wall_s:g} s: is the index reachable?", retryable=True
        ) from error
    finally:
        if process.returncode is None:
            _kill(process)
            await process.wait()


async def _follow(process: asyncio.subprocess.Process, folder: Path, bytes_max: int) -> tuple[int, str]:
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(_said(process))
        watching = group.create_task(_watch(process, folder, bytes_max))
        code = await process.wait()
        _kill(process)  # what it left behind would keep its streams open
        if watching.done():
            raise watching.result()
        watching.cancel()
    return code, saying.result()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _bound(pid: int, bytes_max: int) -> None:
    with suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)


async def _said(process: asyncio.subprocess.Process) -> str:
    said = b""
    if process.stdout is not None:
        while chunk := await process.stdout.read(_SAID_MAX):
            said = (said + chunk)[:_SAID_MAX]
    return said.decode(errors="replace")


async def _watch(process: asyncio.subprocess.Process, folder: Path, bytes_max: int) -> DependenciesUnavailable:
    """Measure the folder until it is too large; then the program is ended."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            check_size(*await asyncio.to_thread(measure, folder), bytes_max)
        except DependenciesUnavailable as excess:
            _kill(process)
            return excess
