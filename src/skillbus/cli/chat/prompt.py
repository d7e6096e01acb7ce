"""Prompt of a conversation: reads one question from the terminal, which can have several lines if it is pasted."""

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from signal import SIGINT, default_int_handler, signal
from typing import Final

_PROMPT: Final = "> "
_NEXT_PROMPT: Final = ". "
_PASTE_S: Final = 0.05
"""Lines that arrive within this time after another one were not typed: they belong to the same question."""


def read_question() -> str:
    """Ask for a question, and wait for it.

    Raises:
        EOFError: Standard input is at its end: Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    if os.environ.get("TERM", "dumb") != "dumb":
        import_module("readline")  # input() then edits lines and knows the earlier ones
    with _interruptible():
        lines = [_read_line(_PROMPT)]
        while select.select([sys.stdin], [], [], _PASTE_S)[0]:
            try:
                lines.append(_read_line(_NEXT_PROMPT))
            except EOFError:
                break
        return "\n".join(lines)


def read_answer(question: str) -> str:
    """Ask one question on stderr, and return the line that answers it. What was typed before does not count.

    Raises:
        EOFError: Standard input is at its end: Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(question)
    sys.stderr.flush()
    with _interruptible():
        line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _read_line(prompt: str) -> str:
    if sys.stdout.isatty():
        return input(prompt)
    # input() would write the prompt to stdout, where the answers go.
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, while an event loop has another handler for it."""
    before = signal(SIGINT, default_int_handler)
    try:
        yield
    finally:
        signal(SIGINT, before)
