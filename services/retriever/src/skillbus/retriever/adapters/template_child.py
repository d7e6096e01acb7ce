"""`python -m skillbus.retriever.adapters.template_child`: writes with one caller's template, and is killed afterwards.

Jinja's sandbox keeps a template from attributes that lead outside; it bounds neither time nor memory, and has had
holes. So the process has nothing to take: no environment, no connection, and, before it reads the template, limits of
memory and processor time, and no way to open a file or a socket. Its parent watches the clock.
"""

import json
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import BinaryIO, Final

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from skillbus.retriever.adapters.template_values import FILTERS, Group, Left
from skillbus.retriever.adapters.template_wire import LENGTH, OUTPUT_CHARACTERS, Answer, Opening, Writing, framed

MEMORY_BYTES: Final = 512 * 1024 * 1024
"""Of address space, of which Python itself has some 40 MB."""
PROCESSOR_S: Final = 3
"""The parent kills it much earlier; this ends one that has lost its parent."""
_ERROR_CHARACTERS: Final = 300
_NAME: Final = "<template>"
_FIRST: Final = "{{ 'text' | upper | striptags | pprint }}{{ missing.attribute }}"
"""What makes Python import all that it imports late, before it can open nothing any more."""


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, _private_stdout()
    _answered(lambda: Answer(text=_environment().from_string(_FIRST).render()))
    _limit()
    _send(answers, Answer())
    page = _Page()
    if (opening := _read(requests)) is not None:
        _send(answers, _answered(partial(page.open, opening)))
    while (writing := _read(requests)) is not None:
        _send(answers, _answered(partial(page.write, writing)))


class _Page:
    """A template, and the items that it got so far."""

    _opening: Opening
    _template: Template

    def __init__(self) -> None:
        self._items: list[SimpleNamespace] = []

    def open(self, frame: bytes) -> Answer:
        self._opening = json.loads(frame)
        self._template = _environment().from_string(self._opening["template"])
        return Answer()

    def write(self, frame: bytes) -> Answer:
        writing: Writing = json.loads(frame)
        self._items += [SimpleNamespace(**item) for item in writing["items"]]
        groups = [Group(kind, [self._items[at] for at in places]) for kind, places in writing["groups"]]
        parts, length = list[str](), 0
        for part in self._template.generate(
            query=self._opening["query"],
            scope=self._opening["scope"],
            groups=groups,
            omitted=Left.of(writing["over_budget"], writing["alike"]),
        ):
            parts.append(part)
            length += len(part)
            if length > OUTPUT_CHARACTERS:
                return Answer(over=True)
        text = "".join(parts)
        text.encode()  # of half a character, as '\ud800' makes one, there is no text to send
        return Answer(text=text)


def _environment() -> ImmutableSandboxedEnvironment:
    """A sandbox in which the same template with the same items writes the same text."""
    environment = ImmutableSandboxedEnvironment(
        autoescape=False,  # it writes text for a model; as HTML it is shown nowhere
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update(FILTERS)
    del environment.filters["random"], environment.globals["lipsum"]
    return environment


def _printable(value: object) -> object:
    """The value. Raises TemplateError for what has no text but its address, another one each time."""
    if isinstance(value, Undefined):
        return value
    if callable(value):
        raise TemplateError(f"{getattr(value, '__name__', 'it')} is a function: call it with ()")
    if isinstance(value, Iterator):
        raise TemplateError("what a filter as map or select gives has no text: add | join or | list")
    return value


def _answered(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - a template raises anything: its caller is told
        return Answer(error=_told(error))


def _told(error: Exception) -> str:
    """What a template did wrong, and where."""
    line: int | None = error.lineno if isinstance(error, TemplateSyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__, limit=-50):
        line = frame.lineno if frame.filename == _NAME else line
    said = (error.strerror or "") if isinstance(error, OSError) else str(error)[:_ERROR_CHARACTERS]
    said = said.encode(errors="replace").decode()
    what = said if isinstance(error, TemplateError) else ": ".join(filter(None, (type(error).__name__, said)))
    return what if line is None else f"{what} (line {line})"


def _limit() -> None:
    """From here on nothing can be opened, and little taken. Nobody can raise it again."""
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, PROCESSOR_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def _private_stdout() -> BinaryIO:
    """The pipe to the parent, as nobody's stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _read(pipe: BinaryIO) -> bytes | None:
    """The next frame; None when there are no more."""
    head = pipe.read(LENGTH.size)
    return pipe.read(*LENGTH.unpack(head)) if len(head) == LENGTH.size else None


def _send(pipe: BinaryIO, answer: Answer) -> None:
    pipe.write(framed(answer))
    pipe.flush()


if __name__ == "__main__":
    main()
