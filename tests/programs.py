"""Python programs in processes that start quickly, because they fork from one that has imported skillbus already.

An interpreter that imports skillbus by itself takes two seconds of CPU, and tests that kill processes start dozens.
"""

import asyncio
import multiprocessing
import os
import runpy
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(["skillbus.standalone.app"])


class Program:
    """A running program, with the methods of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._end)

    @property
    def returncode(self) -> int | None:
        """Exit code of the process, the negative signal number if it was killed, None while it runs."""
        return self._process.exitcode if self._ended.is_set() else None

    async def wait(self) -> None:
        await self._ended.wait()

    def kill(self) -> None:
        self._process.kill()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._ended.set()


@asynccontextmanager
async def open_program(
    *arguments: str, output: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Program]:
    """Run `python ARGUMENTS`, a path or `-m` and a module first; kill it when the context is left.

    What it prints is added to the file `output`.
    """
    process = _FORK_SERVER.Process(target=_run_program, args=(arguments, str(output), dict(environment or {})))
    process.start()
    program = Program(process)
    try:
        yield program
    finally:
        program.kill()
        await program.wait()


def _run_program(arguments: tuple[str, ...], output: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")
