"""Bounded run of a trusted program: limits on time, written bytes and output.

This is not a sandbox: the program reaches the network and everything that its user reaches. A root service runs it as a
user that owns only the working folder, in a process namespace, so that the kernel ends every process that it has
started before the service touches what it wrote.
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
from skillbus.sandbox.adapters.kernel.watchdog import list_process_tree
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
_CAP_SYS_ADMIN: Final = 21
"""Source: `include/uapi/linux/capability.h`."""


def get_build_user() -> int:
    """Return the user that programs run as, who owns what they write."""
    return _USER if os.geteuid() == 0 else os.geteuid()


async def run_program(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, wall_s: float, bytes_max: int
) -> tuple[int, str]:
    """Run a program in `folder`, once, to its end, and return its exit code and its output of both streams.

    Raises:
        DependenciesUnavailable: The program cannot be started, took longer than `wall_s` seconds, or wrote more than
            `bytes_max` below its folder. None of its processes is left.
    """
    # A file, because a pipe stays open until every process that inherited it has ended.
    with (folder / "output").open("x+b") as output:
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

    Raises:
        DependenciesUnavailable: This service is root and cannot run the program as another user.
    """
    words = list[str]()
    if prlimit := shutil.which("prlimit", path=_PATH):
        words += (prlimit, f"--fsize={bytes_max}", "--core=0", "--")
    if nice := shutil.which("nice", path=_PATH):
        words += (nice, "-n", str(_NICE))
    if os.geteuid() == 0:
        words += _change_user(Path(argv[0]))
        give_folder(folder, _USER)
    elif setpriv := shutil.which("setpriv", path=_PATH):
        words += (setpriv, "--no-new-privs", "--")
    return (*words, *argv)


def _change_user(program: Path) -> Sequence[str]:
    """Return the words before a command that run it as another user, as process 1 of a process namespace.

    When it ends, the kernel ends all other processes of the namespace before it reports the end.
    """
    advice = "or run the service as a user other than root"
    unshare, setpriv = (shutil.which(name, path=_PATH) for name in ("unshare", "setpriv"))
    if unshare is None or setpriv is None:
        raise DependenciesUnavailable(f"packages would be fetched as root: install util-linux, {advice}")
    if not is_open_to_all(program):
        raise DependenciesUnavailable(
            f"{program} would run as root, because other users cannot reach it: install it where they can, {advice}"
        )
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    if not int(status["CapEff"], 16) >> _CAP_SYS_ADMIN & 1:
        raise DependenciesUnavailable(
            "packages are fetched in a process namespace, which this root service may not make: give it CAP_SYS_ADMIN, "
            f"{advice}"
        )
    namespace = (unshare, "--pid", "--fork", "--kill-child=KILL", "--")
    user = ("--reuid", str(_USER), "--regid", str(_USER), "--clear-groups", "--bounding-set=-all", "--no-new-privs")
    return (*namespace, setpriv, *user, "--")


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the program and its process group; in a namespace, the program, and with it all others.

    Then `unshare` reports the end after the last of them.
    """
    inner = [pid for pid in list_process_tree((process.pid,)) if pid != process.pid] if os.geteuid() == 0 else []
    with suppress(ProcessLookupError):
        if inner and process.returncode is None:
            os.kill(inner[0], signal.SIGKILL)
        else:
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
