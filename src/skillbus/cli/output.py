"""Output of a command: results go to stdout, notes and errors to stderr. With `--json`, one document and nothing else.

Texts from servers and skills are printed without control characters: a terminal would obey them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import RenderableType
    from rich.progress import Progress, ProgressColumn, TaskID

    from skillbus.cli.errors import CliError

ShowStep = Callable[[str, str, int, int], None]
"""Receives a name, its current step, and how much of how much is done."""

_UNWRAPPED_CELLS: Final = 100_000
"""Wider than any line. Rich pads tables to their contents, not to this width."""
_KEPT: Final = frozenset("\n\t")
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Both streams of the process. Rich uses no colours without a terminal, or when NO_COLOR is set."""

    as_json: bool
    out: Console
    err: Console

    def show_result(self, document: BaseModel | dict[str, object], render: Callable[[], RenderableType]) -> None:
        """Print the result: the document for programs, or what `render` returns for people."""
        if self.as_json:
            self.write_text(format_json(document) + "\n")
        else:
            self._print(render())

    def print_text(self, text: RenderableType) -> None:
        """Print a part of the result, unless the result is a JSON document."""
        if not self.as_json:
            self._print(text)

    def print_note(self, line: str, style: str = "dim") -> None:
        """Print a remark to stderr, unless the result is a JSON document."""
        if not self.as_json:
            self.err.print(Text(clean_text(line), style))

    def print_error(self, error: CliError) -> None:
        """Print an error with its advice."""
        if self.as_json:
            self.write_text(format_json({"error": error.document()}) + "\n")
            return
        self.err.print(Text.assemble(("Error: ", "bold red"), (clean_text(error.heading()), "bold")))
        for line in error.lines():
            self.err.print(Text(f"  {clean_text(line)}"))
        if error.advice:
            self.err.print(Text(f"  {clean_text(error.advice)}", "cyan"))

    def _print(self, text: RenderableType) -> None:
        if self.out.is_terminal:
            self.out.print(text)
            return
        with self.out.capture() as captured:
            self.out.print(text)
        self.write_text(re.sub(" +(?=\n)", "", captured.get()))  # Rich pads tables with blanks at line ends

    def write_text(self, text: str) -> None:
        """Write text to stdout unchanged."""
        sys.stdout.write(text)
        sys.stdout.flush()

    @contextmanager
    def show_progress(self, title: str, total: int) -> Iterator[Callable[[str], None]]:
        """Show a bar on a terminal. Call the yielded function with the name of each item before its work begins."""
        with self._open_bars() as bars:
            if bars is None:
                yield lambda _: None
                return
            task = bars.add_task(title, total=total, step="")
            begun = 0

            def begin_item(name: str) -> None:
                nonlocal begun
                bars.update(task, completed=begun, step=clean_text(name))
                begun += 1

            yield begin_item

    @contextmanager
    def show_items(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a bar with rate and time left on a terminal. Call the yielded function with the items done since then.

        A total of None means that the number is unknown.
        """
        with self._open_bars(has_rate=True) as bars:
            if bars is None:
                yield lambda _: None
                return
            task = bars.add_task(clean_text(title), total=total, step="")

            def add_done(more: int) -> None:
                bars.update(task, advance=more)
                rate = bars.tasks[0].speed
                bars.update(task, step=f"{rate:,.0f}/s" if rate else "")

            yield add_done

    @contextmanager
    def show_bytes(self, title: str, total: int) -> Iterator[ShowBytes]:
        """Show a bar of bytes with their rate and the time left on a terminal; elsewhere print a note at each step."""
        with self._open_bars(has_bytes=True) as bars:
            yield ShowBytes(self, bars, clean_text(title), total)

    @contextmanager
    def show_steps(self) -> Iterator[ShowStep]:
        """Show one bar for each name on a terminal; elsewhere print a note when a name enters a new step."""
        with self._open_bars() as bars:
            tasks: dict[str, TaskID] = {}
            steps: dict[str, str] = {}

            def show_step(name: str, step: str, done: int, total: int) -> None:
                if bars is None:
                    if steps.get(name) != step:
                        self.print_note(f"{name}: {step}, {done} of {total}")
                    steps[name] = step
                    return
                if name not in tasks:
                    tasks[name] = bars.add_task(clean_text(name), step="")
                bars.update(tasks[name], completed=done, total=total, step=clean_text(step))

            yield show_step

    @contextmanager
    def _open_bars(self, *, has_rate: bool = False, has_bytes: bool = False) -> Iterator[Progress | None]:
        if self.as_json or not self.err.is_terminal:
            yield None
            return
        # Slow to import, and most commands show no bar.
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        title, step = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[step]}", markup=False)
        columns: list[ProgressColumn] = [title, BarColumn()]
        columns += [DownloadColumn(), TransferSpeedColumn()] if has_bytes else [MofNCompleteColumn(), step]
        columns += [TimeRemainingColumn()] if has_rate or has_bytes else []
        with Progress(*columns, console=self.err, transient=True) as bars:
            yield bars


class ShowBytes:
    """Bar of bytes."""

    def __init__(self, output: CommandOutput, bars: Progress | None, title: str, total: int) -> None:
        self._output = output
        self._bars = bars
        self._title = title
        self._task = bars.add_task(title, total=total, step="") if bars is not None else None

    def add(self, more: int) -> None:
        """Move the bar by further bytes."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, advance=more)

    def show(self, title: str, done: int | None) -> None:
        """Show a step, and the bytes that are done in it; None keeps them."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, description=clean_text(title), completed=done)
        elif title != self._title:
            self._output.print_note(title)
        self._title = title


def open_output(*, as_json: bool) -> CommandOutput:
    """Return an output to the current streams of the process."""
    return CommandOutput(as_json, _open_console(stderr=False), _open_console(stderr=True))


def format_json(document: BaseModel | dict[str, object]) -> str:
    """Return the document as JSON. Characters outside ASCII are escaped unless stdout is in Unicode."""
    data = document if isinstance(document, dict) else document.model_dump(mode="json")
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return json.dumps(data, ensure_ascii=not is_unicode, indent=2)


def clean_text(text: str) -> str:
    """Replace control characters, which begin escape sequences, and bidirectional controls by `�`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "�" if char not in _KEPT and (char in _BIDI or unicodedata.category(char) in {"Cc", "Cs"}) else char
        for char in text.replace("\r\n", "\n")
    )


def clean_line(text: str) -> str:
    """Return the clean text on one line."""
    return " ".join(clean_text(text).split())


def format_number(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or the plural: `1 run`, `2 runs`, `2 queries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeo" else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def format_size(size_bytes: int) -> str:
    """Return a size with its unit, such as `1.5 kB`."""
    amount, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _open_console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # Output to a pipe is for tools like grep: no line is wrapped.
        console.width = _UNWRAPPED_CELLS
    return console
