"""One child process that computes e5, from its start to its end."""

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
from skillbus.embedder.adapters.local.e5.wire import LENGTH, Answer, framed
from skillbus.embedder.domain.errors import EmbedderError, ModelFilesBrokenError, TextsRefusedError

_STDERR_KEPT: Final = 500
_DYING_S: Final = 1.0
_INHERITED: Final = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
"""Of the environment, which may hold keys of providers: a process whose memory can be damaged gets none of them."""


class ChildDiedError(EmbedderError):
    """The process died while it loaded the model, or while it embedded the texts that it was asked for."""


class ChildHungError(EmbedderError):
    """The process was killed because it took too long for the texts that it was asked for."""


@dataclass(frozen=True, slots=True)
class E5Program:
    """How the process is started, and how long it may take, in seconds."""

    model_file: Path
    threads: int = 1
    """Of OpenMP. Two on a busy machine of two cores take longer than one, and eight times the CPU."""
    arguments: tuple[str, ...] = ("-m", "skillbus.embedder.adapters.local.e5.child")
    """Of Python; the model's file follows."""
    start_s: float = 30.0
    answer_s: float = 60.0

    @property
    def command(self) -> Sequence[str]:
        """Isolated: neither the environment nor the working directory decides what is imported."""
        return (sys.executable, "-I", *self.arguments, str(self.model_file))

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**inherited, "OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "passive"}


class E5Process:
    """Made by `start`. Whoever asks waits for the answer before anyone asks again."""

    def __init__(self, program: E5Program, process: Process) -> None:
        self._program = program
        self._process = process
        self._last_words = b""
        self._listening = asyncio.create_task(self._listen(), name="e5-stderr")

    @classmethod
    async def start(cls, program: E5Program) -> Self:
        """The process, which has embedded a first text.

        Raises:
            ChildDiedError, ChildHungError: it did not come so far.
            ModelFilesBrokenError: it says that the model cannot be loaded.
        """
        process = await asyncio.create_subprocess_exec(
            *program.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=program.environment,
            start_new_session=True,  # Ctrl-C is for the embedder, which still answers who waits
        )
        child = cls(program, process)
        try:
            await child._exchange(b"", program.start_s)
        except EmbedderError:
            await child.end()
            raise
        return child

    @property
    def alive(self) -> bool:
        """False some moments after it died."""
        return self._process.returncode is None

    async def ask(self, payload: bytes) -> bytes:
        """The body of the answer.

        Raises:
            ChildDiedError, ChildHungError: it is gone.
            TextsRefusedError: it says that these texts cannot be embedded.
        """
        return await self._exchange(framed(payload), self._program.answer_s)

    async def end(self, grace_s: float = 0.0) -> None:
        """Kill it, which costs it nothing, and leave nothing of it behind.

        Args:
            grace_s: How long it may take to end by itself. One that is dying says only then how: `kill` collects it
                unseen.
        """
        await finish_within(self._process.wait(), grace_s)
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def _exchange(self, question: bytes, within_s: float) -> bytes:
        answer: bytes | None = None
        try:
            async with asyncio.timeout(within_s):
                answer = await self._answer_to(question)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            await self.end(_DYING_S)
            raise ChildDiedError(f"the process of e5 died ({self._how_it_ended()}){self._said()}") from error
        except TimeoutError as error:
            raise ChildHungError(f"the process of e5 took longer than {within_s:g} s and was killed") from error
        finally:
            if answer is None:  # also when the caller gave up: the next answer would be taken for another's
                await self.end()
        return self._body(answer)

    async def _answer_to(self, question: bytes) -> bytes:
        if self._process.stdin is None or self._process.stdout is None:
            raise ConnectionError("the process has no pipes")
        self._process.stdin.write(question)
        await self._process.stdin.drain()
        head = await self._process.stdout.readexactly(LENGTH.size)
        return await self._process.stdout.readexactly(*LENGTH.unpack(head))

    def _body(self, answer: bytes) -> bytes:
        body = answer[1:]
        match Answer(answer[0]):
            case Answer.ROWS:
                return body
            case Answer.BROKEN:
                raise ModelFilesBrokenError(self._program.model_file, body.decode())
            case Answer.FAILED:
                raise TextsRefusedError(body.decode())

    async def _listen(self) -> None:
        """Keeps what it says last on stderr; nobody's terminal gets it."""
        while self._process.stderr is not None and (heard := await self._process.stderr.read(4096)):
            self._last_words = (self._last_words + heard)[-_STDERR_KEPT:]

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"

    def _said(self) -> str:
        words = self._last_words.decode(errors="replace").strip()
        return f": {words}" if words else ""
