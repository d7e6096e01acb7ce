"""A program of the operator's that is run for a while: bounded in time, in what it writes and in what it says.

It is no sandbox: it reaches the network, and what its user reaches. A service that is root gives it a user of its own,
who owns nothing but the folder that it works in, where that user can walk to the program.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.host_folders import is_open_to_all
from skillbus.sandbox.adapters.packages.layer_tree import check_size, give, measure
from skillbus.sandbox.domain.errors import DependenciesUnavailable

_LOOK_EVERY_S: Final = 0.25
"""How often the folder is measured; a file alone is bounded by the kernel."""
_SAID_MAX: Final = 64 * 1024
_NICE: Final = 10
"""Runs go first."""
_PATH: Final = "/usr/bin:/bin"
_USER: Final = 64000
"""Of no account, and of no run."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, with nothing of this process's environment."""

    argv: Sequence[str]
    folder: Path
    """Its own, which it works in."""
    environment: Mapping[str, str]


async def run_program(program: Program, wall_s: float, bytes_max: int) -> tuple[int, str]:
    """Run it to its end: its exit code, and what it said on both streams.

    Raises:
        DependenciesUnavailable: when it cannot be started, took longer than `wall_s` seconds, or wrote more than
            `bytes_max` below its folder. Nothing of it runs any more then.
    """
    # A file: a pipe would have to be waited for until all who inherited it let go.
    with (program.folder / "said").open("w+b") as said:
        try:
            process = await asyncio.create_subprocess_exec(
                *await asyncio.to_thread(_bounded, program, bytes_max),
                cwd=program.folder,
                env=dict(program.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise DependenciesUnavailable(f"{program.argv[0]} cannot be started: {error.strerror}") from error
        code = await _watched(process, program.folder, wall_s, bytes_max)
        said.seek(0)
        return code, said.read(_SAID_MAX).decode(errors="replace")


async def _watched(process: asyncio.subprocess.Process, folder: Path, wall_s: float, bytes_max: int) -> int:
    watching = asyncio.create_task(_watch(process, folder, bytes_max))
    try:
        async with asyncio.timeout(wall_s):
            code = await process.wait()
    except TimeoutError as error:
        raise DependenciesUnavailable(
            f"the packages were not there after {wall_s:g} s: is the index reachable?", retryable=True
        ) from error
    finally:
        _kill(process)
        await process.wait()
        watching.cancel()
        await asyncio.wait([watching])
    if not watching.cancelled():
        raise watching.result()
    return code


def _bounded(program: Program, bytes_max: int) -> Sequence[str]:
    """The command line, and the folder given to whom it runs as.

    The limits are set by programs and not by this one, which may have no right to set them for another user.
    """
    words = list[str]()
    if prlimit := shutil.which("prlimit", path=_PATH):
        words += (prlimit, f"--fsize={bytes_max}", "--core=0", "--")
    if nice := shutil.which("nice", path=_PATH):
        words += (nice, "-n", str(_NICE))
    if setpriv := shutil.which("setpriv", path=_PATH):
        words += (setpriv, "--no-new-privs")
        if os.geteuid() == 0 and is_open_to_all(Path(program.argv[0])):
            give(program.folder, _USER)
            words += ("--reuid", str(_USER), "--regid", str(_USER), "--clear-groups", "--bounding-set=-all")
        words.append("--")
    return (*words, *program.argv)


def _kill(process: asyncio.subprocess.Process) -> None:
    """It and all that it left behind in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _watch(process: asyncio.subprocess.Process, folder: Path, bytes_max: int) -> DependenciesUnavailable:
    """Measure the folder until it is too large; then the program is ended."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            check_size(*await asyncio.to_thread(measure, folder), bytes_max)
        except DependenciesUnavailable as excess:
            _kill(process)
            return excess
