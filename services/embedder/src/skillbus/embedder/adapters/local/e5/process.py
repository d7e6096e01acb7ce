"""Child process that computes e5, from start to end."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from skillbus.common.background import finish_within
from skillbus.embedder.adapters.local.e5.wire import LENGTH, FrameKind, pack_frame
from skillbus.embedder.domain.errors import EmbedderError, ModelFilesBrokenError, TextsRefusedError

_STDERR_KEPT: Final = 500
_DYING_S: Final = 1.0
_INHERITED: Final = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
"""Environment variables that the child gets. Others may hold provider keys, and this process's memory can be damaged.
"""


class ChildDiedError(EmbedderError):
    """Death of the process while it loaded the model or embedded texts."""


class ChildHungError(EmbedderError):
    """Kill of the process after it exceeded its time for the texts."""


@dataclass(frozen=True, slots=True)
class E5Program:
    """Command line, environment and time limits (seconds) of the process."""

    model_file: Path
    threads: int = 1
    """OpenMP threads. Two on a busy machine of two cores take longer than one, and eight times the CPU."""
    arguments: tuple[str, ...] = ("-m", "skillbus.embedder.adapters.local.e5.child")
    """Arguments of Python, in front of the model's file."""
    start_s: float = 30.0
    answer_s: float = 60.0

    @property
    def command(self) -> Sequence[str]:
        """Command line in isolated mode: neither environment nor working directory affect the imports."""
        return (sys.executable, "-I", *self.arguments, str(self.model_file))

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**inherited, "OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "passive"}


class E5Process:
    """Running process, created by `start`. Only one request at a time."""

    def __init__(self, program: E5Program, process: Process) -> None:
        self._program = program
        self._process = process
        self._stderr_tail = b""
        self._reading_stderr = asyncio.create_task(self._read_stderr(), name="e5-stderr")

    @classmethod
    async def start(cls, program: E5Program) -> Self:
        """Start a process and wait until it has embedded a first text.

        Raises:
            ChildDiedError, ChildHungError: the process did not get that far.
            ModelFilesBrokenError: the process reports that the model cannot be loaded.
        """
        process = await asyncio.create_subprocess_exec(
            *program.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=program.environment,
            start_new_session=True,  # Ctrl-C is for the embedder, which still answers waiting callers
        )
        child = cls(program, process)
        try:
            await child._exchange(b"", program.start_s)
        except EmbedderError:
            await child.kill()
            raise
        return child

    @property
    def alive(self) -> bool:
        """False from some moments after its death."""
        return self._process.returncode is None

    async def send_request(self, payload: bytes) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            ChildDiedError, ChildHungError: the process is gone.
            TextsRefusedError: the process reports that these texts cannot be embedded.
        """
        return await self._exchange(pack_frame(payload), self._program.answer_s)

    async def kill(self, grace_s: float = 0.0) -> None:
        """Kill the process and release everything.

        A dying process has `grace_s` to end by itself. Only then is its exit code known: `kill` reaps it without one.
        """
        await finish_within(self._process.wait(), grace_s)
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading_stderr

    async def _exchange(self, frame: bytes, within_s: float) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ChildDiedError("the process of e5 has no pipes")
        answer: bytes | None = None
        try:
            async with asyncio.timeout(within_s):
                stdin.write(frame)
                await stdin.drain()
                head = await stdout.readexactly(LENGTH.size)
                answer = await stdout.readexactly(*LENGTH.unpack(head))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            await self.kill(_DYING_S)
            code = self._process.returncode
            ended = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            words = self._stderr_tail.decode(errors="replace").strip()
            ended = f"{ended}; stderr: {words}" if words else ended
            raise ChildDiedError(f"the process of e5 died ({ended})") from error
        except TimeoutError as error:
            raise ChildHungError(f"the process of e5 took longer than {within_s:g} s and was killed") from error
        finally:
            if answer is None:  # also if the caller gave up: its answer would be taken for the next one's
                await self.kill()
        body = answer[1:]
        match FrameKind(answer[0]):
            case FrameKind.ROWS:
                return body
            case FrameKind.BROKEN:
                raise ModelFilesBrokenError(self._program.model_file, body.decode())
            case FrameKind.FAILED:
                raise TextsRefusedError(body.decode())

    async def _read_stderr(self) -> None:
        """Keep the end of stderr for error messages."""
        while self._process.stderr is not None and (heard := await self._process.stderr.read(4096)):
            self._stderr_tail = (self._stderr_tail + heard)[-_STDERR_KEPT:]
