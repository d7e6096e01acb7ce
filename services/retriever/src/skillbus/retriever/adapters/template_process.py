"""A caller's template in a process of its own, from its start to its end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Final, Self

from skillbus.retriever.adapters.template_wire import FRAME_BYTES, LENGTH, Answer, Opening, Writing, framed
from skillbus.retriever.domain.context.packer import Packed
from skillbus.retriever.domain.errors import RetrieverError, TemplateRefusedError

_INHERITED: Final = ("LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
"""Of the environment, which may hold keys: a process of strangers' templates gets none of them."""


@dataclass(frozen=True, slots=True)
class TemplateProgram:
    """How the process is started, and how long it may take, in seconds."""

    arguments: tuple[str, ...] = ("-m", "skillbus.retriever.adapters.template_child")
    """Of Python."""
    start_s: float = 10.0
    write_s: float = 1.0
    """For all that it does for one request."""

    @contextmanager
    def opened(self, opening: Opening) -> Iterator["TemplateProcess"]:
        """A process with a template, which is gone when the context is left.

        Raises:
            TemplateRefusedError: The template is none.
        """
        # Isolated: neither the environment nor the working directory decides what is imported.
        process = subprocess.Popen(
            (sys.executable, "-I", *self.arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            cwd="/",
            start_new_session=True,
        )
        try:
            yield TemplateProcess.started(self, process, opening)
        finally:
            _end(process)


class TemplateProcess:
    """Writes with one template. Made by `TemplateProgram`."""

    def __init__(self, process: subprocess.Popen[bytes], left_s: float) -> None:
        self._process = process
        self._left_s = left_s
        self._sent: dict[tuple[str, str], int] = {}

    @classmethod
    def started(cls, program: TemplateProgram, process: subprocess.Popen[bytes], opening: Opening) -> Self:
        """One that knows its template. Raises RetrieverError, or TemplateRefusedError."""
        if _exchange(process, b"", program.start_s) is None:
            raise RetrieverError(
                f"the process for templates did not start within {program.start_s:g} s; {_how(process)}"
            )
        started = cls(process, program.write_s)
        started._ask(opening)
        return started

    def write(self, packed: Packed) -> str | None:
        """The text; None of one that is longer than any reply. Raises TemplateRefusedError."""
        new = [item for item in packed.items if (item.project, item.id) not in self._sent]
        for item in new:
            self._sent[item.project, item.id] = len(self._sent)
        omitted = packed.omitted
        answer = self._ask(
            Writing(
                items=[item.model_dump(mode="json") for item in new],
                groups=[
                    (group.type.value, [self._sent[item.project, item.id] for item in group.items])
                    for group in packed.groups
                ],
                over_budget=omitted.over_budget,
                alike=omitted.alike,
            )
        )
        return answer.get("text")

    def _ask(self, question: Opening | Writing) -> Answer:
        start = time.monotonic()
        body = _exchange(self._process, framed(question), max(self._left_s, 0.001))
        self._left_s -= time.monotonic() - start
        if body is None and self._left_s <= 0:
            raise TemplateRefusedError("The template takes longer than a second: let it loop less.")
        if body is None:
            raise TemplateRefusedError(
                f"The template broke the process that runs it ({_how(self._process)}): shorten it."
            )
        answer: Answer = json.loads(body)
        if "error" in answer:
            raise TemplateRefusedError(f"The template cannot be used: {answer['error']}")
        return answer


def _exchange(process: subprocess.Popen[bytes], question: bytes, within_s: float) -> bytes | None:
    """The answer; None when there is none in time, or none at all, and the process is killed then."""
    watch = threading.Timer(within_s, process.kill)
    watch.start()
    body: bytes | None = None
    try:
        if process.stdin is not None and process.stdout is not None:
            process.stdin.write(question)
            process.stdin.flush()
            body = _frame(process.stdout)
    except OSError:
        body = None  # it is gone, and its end of the pipe with it
    finally:
        watch.cancel()
        if body is None:
            process.kill()
    return body


def _frame(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = pipe.read(length) if length <= FRAME_BYTES else b""
    return body if len(body) == length else None


def _how(process: subprocess.Popen[bytes]) -> str:
    """How it ended."""
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # of what was never taken from it
                pipe.close()
