"""Where a command's words go: results to stdout, everything else to stderr; with `--json` one document alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from skillbus.cli.text import plain

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import RenderableType
    from rich.progress import TaskID

    from skillbus.cli.errors import CliError

ShowBar = Callable[[str, str, int, int], None]
"""Says of a name in which step it is, and how much of how much is done."""

_UNWRAPPED_CELLS = 100_000
"""Wider than any line: Rich pads tables to their contents and not to this."""


@dataclass(frozen=True, slots=True)
class Output:
    """Both streams of the process. Rich leaves colours out where there is no terminal, and where NO_COLOR is set."""

    as_json: bool
    out: Console
    err: Console

    def show(self, document: BaseModel | dict[str, object], human: Callable[[], RenderableType]) -> None:
        """The result: as a document for programs, or as people read it."""
        if self.as_json:
            self.write(as_text(document) + "\n")
        else:
            self.out.print(human())

    def say(self, human: RenderableType) -> None:
        """A part of the result that only people get."""
        if not self.as_json:
            self.out.print(human)

    def note(self, line: str, style: str = "dim") -> None:
        """A remark, on stderr; programs do not get it."""
        if not self.as_json:
            self.err.print(Text(plain(line), style))

    def fail(self, error: CliError) -> None:
        """What went wrong and what to do."""
        if self.as_json:
            self.write(as_text({"error": error.document()}) + "\n")
            return
        self.err.print(Text.assemble(("Error: ", "bold red"), (plain(error.heading()), "bold")))
        for line in error.lines():
            self.err.print(Text(f"  {plain(line)}"))
        if error.advice:
            self.err.print(Text(f"  {plain(error.advice)}", "cyan"))

    def write(self, text: str) -> None:
        """Text as it is, on stdout."""
        sys.stdout.write(text)
        sys.stdout.flush()

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[str], None]]:
        """A bar on stderr while something long goes on, on terminals only; call what is given when an item is next."""
        if self.as_json or not self.err.is_terminal:
            yield lambda _: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415 (slow; rare)

        columns = (
            TextColumn(what, markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[item]}", markup=False),
        )
        with Progress(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(what, total=total, item="")
            begun = 0

            def next_item(item: str) -> None:
                nonlocal begun
                bar.update(task, completed=begun, item=plain(item))
                begun += 1

            yield next_item

    @contextmanager
    def sending(self, what: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on stderr while bytes are dealt with, on terminals only; call what is given with how many more were."""
        if self.as_json or not self.err.is_terminal:
            yield lambda _: None
            return
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415 (slow; rare)

        with Progress(
            TextColumn(plain(what), markup=False), BarColumn(), DownloadColumn(), console=self.err, transient=True
        ) as bar:
            task = bar.add_task(what, total=total_bytes)
            yield lambda more: bar.update(task, advance=more)

    @contextmanager
    def bars(self) -> Iterator[ShowBar]:
        """Bars on stderr, one a name, until the context is left; without a terminal, a line where the step is new."""
        if self.as_json or not self.err.is_terminal:
            steps: dict[str, str] = {}

            def show_line(name: str, step: str, done: int, total: int) -> None:
                if steps.get(name) != step:
                    self.note(f"{name}: {step}, {done} of {total}")
                steps[name] = step

            yield show_line
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415 (slow; rare)

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[step]}", markup=False))
        with Progress(*columns, console=self.err, transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def show_bar(name: str, step: str, done: int, total: int) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(plain(name), step="")
                bars.update(tasks[name], completed=done, total=total, step=plain(step))

            yield show_bar


def open_output(*, as_json: bool) -> Output:
    """Output to the streams of the process as they are now."""
    return Output(as_json, _console(stderr=False), _console(stderr=True))


def as_text(document: BaseModel | dict[str, object]) -> str:
    """JSON with what the stream's encoding cannot write escaped."""
    data = document if isinstance(document, dict) else document.model_dump(mode="json")
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return json.dumps(data, ensure_ascii=not unicode, indent=2)


def _console(*, stderr: bool) -> Console:
    """Where there is no terminal, lines are for `grep`: nothing is wrapped, whatever COLUMNS says."""
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNWRAPPED_CELLS
    return console
