"""Bounded run of a trusted program: limits on time, written bytes and output.

This is not a sandbox: the program reaches the network and everything that its user reaches. A root service runs it as a
user that owns only the working folder, if that user can reach the program.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from skillbus.sandbox.adapters.host import is_open_to_all
from skillbus.sandbox.adapters.packages.layer_tree import check_size, give_folder, measure_folder
from skillbus.sandbox.domain.errors import DependenciesUnavailable

_LOOK_EVERY_S: Final = 0.25
"""Interval of measuring the folder; the kernel limits single files."""
_OUTPUT_MAX: Final = 64 * 1024
_NICE: Final = 10
"""Priority below that of runs."""
_PATH: Final = "/usr/bin:/bin"
_USER: Final = 64000
"""User id without an account, different from those of runs."""


async def run_program(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, wall_s: float, bytes_max: int
) -> tuple[int, str]:
    """Run a program in `folder` to its end, and return its exit code and its output of both streams.

    Raises:
        DependenciesUnavailable: The program cannot be started, took longer than `wall_s` seconds, or wrote more than
            `bytes_max` below its folder. None of its processes is left.
    """
    # A file, because a pipe stays open until every process that inherited it has ended.
    with (folder / "output").open("w+b") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *await asyncio.to_thread(_build_command, argv, folder, bytes_max),
                cwd=folder,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise DependenciesUnavailable(f"{argv[0]} cannot be started: {error.strerror}") from error
        code = await _wait_watched(process, folder, wall_s, bytes_max)
        output.seek(0)
        return code, output.read(_OUTPUT_MAX).decode(errors="replace")


async def _wait_watched(process: asyncio.subprocess.Process, folder: Path, wall_s: float, bytes_max: int) -> int:
    watching = asyncio.create_task(_watch(process, folder, bytes_max))
    try:
        async with asyncio.timeout(wall_s):
            code = await process.wait()
    except TimeoutError as error:
        raise DependenciesUnavailable(
            f"installing the packages took longer than {wall_s:g} s: is the index reachable?", retryable=True
        ) from error
    finally:
        _kill(process)
        await process.wait()
        watching.cancel()
        await asyncio.wait([watching])
    if not watching.cancelled():
        raise watching.result()
    return code


def _build_command(argv: Sequence[str], folder: Path, bytes_max: int) -> Sequence[str]:
    """Return the command line with limits, after giving the folder to the user that the program runs as.

    Helper programs set the limits, because this process may not be allowed to set them for another user.
    """
    words = list[str]()
    if prlimit := shutil.which("prlimit", path=_PATH):
        words += (prlimit, f"--fsize={bytes_max}", "--core=0", "--")
    if nice := shutil.which("nice", path=_PATH):
        words += (nice, "-n", str(_NICE))
    if setpriv := shutil.which("setpriv", path=_PATH):
        words += (setpriv, "--no-new-privs")
        if os.geteuid() == 0 and is_open_to_all(Path(argv[0])):
            give_folder(folder, _USER)
            words += ("--reuid", str(_USER), "--regid", str(_USER), "--clear-groups", "--bounding-set=-all")
        words.append("--")
    return (*words, *argv)


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the program and its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _watch(process: asyncio.subprocess.Process, folder: Path, bytes_max: int) -> DependenciesUnavailable:
    """Measure the folder until it is too large, then kill the program."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            check_size(*await asyncio.to_thread(measure_folder, folder), bytes_max)
        except DependenciesUnavailable as error:
            _kill(process)
            return error
