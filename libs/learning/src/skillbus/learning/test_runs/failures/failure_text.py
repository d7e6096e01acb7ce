"""Causes of failures, read from the texts that test frameworks of Python, Java and JavaScript write."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.learning.test_runs.failures.frames import make_class_frame, make_path_frame
from skillbus.learning.test_runs.values import RunFrame

MESSAGE_CHARACTERS: Final = 600
_FRAMES: Final = 24
_MESSAGE_LINES: Final = 4
_ASSERTION: Final = "AssertionError"
_CHAIN: Final = re.compile(
    r"^\s*(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):\s*$",
    re.MULTILINE,
)
_PYTEST_FRAME: Final = re.compile(
    r"^\s*(?P<path>[^\s:<>|*?\"]*\.pyx?):(?P<line>\d+):(?: in (?P<function>\S+)| (?P<type>[\w.]+))?\s*$"
)
_PYTHON_FRAME: Final = re.compile(r"^\s*File \"(?P<path>[^\"\n]+)\", line (?P<line>\d+)(?:, in (?P<function>.+))?$")
_PYTEST_ERROR: Final = re.compile(r"^\s*E(?:\s{1,40}(?P<text>.*))?$")
_DEFINITION: Final = re.compile(r"^\s*(?:async )?def (?P<name>\w+)\(")
_TYPE: Final = r"[A-Za-z_$][\w.$]*"
_TYPED: Final = re.compile(rf"^\s*(?:Uncaught )?(?P<type>{_TYPE})(?: \[\w+\])?(?::\s*(?P<text>.*))?$", re.DOTALL)
_TYPE_NAME: Final = re.compile(
    r"(?:.*[.$])?(?:\w*(?:Error|Exception|Failure|Failed|Warning|Exit|Interrupt|Timeout|Throwable|Expired|Fault)|Error)"
)
_JAVA_FRAME: Final = re.compile(
    r"^\s*at (?:[\w.@-]+/+)?(?P<class>[\w.$]+)\.(?P<function>[\w$<>]+)\((?P<file>[^():\n]*)(?::(?P<line>\d+))?\)\s*$"
)
_JAVA_CAUSE: Final = re.compile(r"^\s*Caused by:\s*(?P<text>.*)$")
_SCRIPT_FRAME: Final = re.compile(
    r"^\s*at (?:(?P<function>[^()\n]{1,200}?) \()?(?P<path>(?:file://)?[^()\n]{1,400}?):(?P<line>\d+):\d+\)?\s*$"
)
_SCRIPT_CAUSE: Final = re.compile(r"^\s*\[cause\]:\s*(?P<text>.*)$")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Innermost cause of a failure."""

    exception: str
    outer: str
    message: str
    frames: tuple[RunFrame, ...]
    assertion: str
    """Source line of a failed assertion, if the text shows it."""


def parse_failure(text: str, message: str, kind: str, test: str, root: str = "") -> FailureCause:
    """Return the cause that a failure's text shows; else its message's first line.

    `message` and `kind` are what the report states beside the text: a first line and a type, or nothing.
    """
    lines = text.splitlines()
    if any(_PYTEST_FRAME.match(line) or _PYTHON_FRAME.match(line) for line in lines):
        return _parse_python(text, message, kind, root)
    if any(_JAVA_FRAME.match(line) for line in lines):
        return _parse_stack(lines, message, kind, test, _JAVA_FRAME, _JAVA_CAUSE)
    if any(_SCRIPT_FRAME.match(line) for line in lines):
        return _parse_stack(lines, message, kind, test, _SCRIPT_FRAME, _SCRIPT_CAUSE)
    errors = [match["text"] or "" for line in lines if (match := _PYTEST_ERROR.match(line))]
    name, said = _split_type(message or "\n".join(errors) or _get_first_line(lines))
    return FailureCause(_shorten_type(name or kind), "", said or _get_first_line(lines), (), "")


def _parse_python(text: str, message: str, kind: str, root: str) -> FailureCause:
    sections = [_parse_section(part, root) for part in _CHAIN.split(text)]
    told = [section for section in sections if section.exception]
    inner = told[0] if told else sections[0]
    outer = told[-1].exception if told else ""
    frames = inner.frames
    if len(sections) > 1 and not any(frame.place == "project" for frame in frames):
        frames = tuple(frame for section in reversed(sections) for frame in section.frames)
    name, said = _split_type(message)
    exception = inner.exception or _shorten_type(name or kind)
    return FailureCause(
        exception=exception,
        outer=outer if outer != exception else "",
        message=inner.message or said,
        frames=frames[-_FRAMES:],
        assertion=inner.assertion,
    )


def _parse_section(text: str, root: str) -> FailureCause:
    """Return the exception of one part of a chain."""
    frames: list[RunFrame] = []
    errors: list[str] = []
    function = assertion = stated = ""
    lines = text.splitlines()
    for line in lines:
        if match := _PYTEST_FRAME.match(line) or _PYTHON_FRAME.match(line):
            parts = match.groupdict()
            frame = make_path_frame(parts["path"], int(parts["line"]), parts["function"] or function, root)
            if not frame.function and frames and frames[-1].module == frame.module:
                frame = frame.model_copy(update={"function": frames[-1].function})
            frames.append(frame)
            stated = parts.get("type") or stated
        elif match := _DEFINITION.match(line):
            function = match["name"]
        elif match := _PYTEST_ERROR.match(line):
            errors.append((match["text"] or "").rstrip())
        elif line.lstrip().startswith(">"):
            assertion = line.lstrip()[1:].strip()
    if not errors and any(map(_PYTHON_FRAME.match, lines)):
        errors = _find_final_lines(lines)
    name, said = _split_type("\n".join(errors[:_MESSAGE_LINES]))
    return FailureCause(_shorten_type(name or stated), "", said, tuple(frames), assertion)


def _find_final_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines after the last frame of a traceback that begin at its margin: the exception."""
    last = max(place for place, line in enumerate(lines) if _PYTHON_FRAME.match(line))
    margin = len(lines[last]) - len(lines[last].lstrip()) - 2
    for place in range(last + 1, len(lines)):
        line = lines[place]
        if line.strip() and len(line) - len(line.lstrip()) <= max(margin, 0) and _TYPED.match(line):
            return [line.strip() for line in lines[place : place + _MESSAGE_LINES]]
    return []


def _parse_stack(
    lines: Sequence[str], message: str, kind: str, test: str, frame: re.Pattern[str], cause: re.Pattern[str]
) -> FailureCause:
    """Return the innermost cause of a stack trace that lists the innermost frame first."""
    starts = [place for place, line in enumerate(lines) if cause.match(line)]
    begin = starts[-1] if starts else 0
    head = [match["text"] if (match := cause.match(lines[begin])) else lines[begin], *lines[begin + 1 :]]
    said: list[str] = []
    for line in head:
        if frame.match(line) or len(said) >= _MESSAGE_LINES:
            break
        if line.strip():
            said.append(line.strip())
    name, text = _split_type("\n".join(said))
    outer_name, outer_text = _split_type(message)
    inner = _list_frames(lines[begin:], frame, test)
    frames = inner if any(found.place == "project" for found in inner) else _list_frames(lines, frame, test)
    exception = _shorten_type(name or kind or outer_name)
    outer = _shorten_type(kind or outer_name) if starts else ""
    return FailureCause(exception, outer if outer != exception else "", text or outer_text or message, frames, "")


def _list_frames(lines: Sequence[str], pattern: re.Pattern[str], test: str) -> tuple[RunFrame, ...]:
    frames = []
    for line in lines:
        if match := pattern.match(line):
            parts = match.groupdict()
            number = int(parts["line"] or 0)
            if "class" in parts:
                frames.append(make_class_frame(parts["class"], parts["function"], number, test))
            else:
                path = (parts["path"] or "").removeprefix("file://")
                function = (parts["function"] or "").removeprefix("async ").removeprefix("new ")
                frames.append(make_path_frame(path, number, function))
    return tuple(reversed(frames[:_FRAMES]))


def _split_type(text: str) -> tuple[str, str]:
    """Return the type and the message of `Type: message`; no type if the text does not begin with one."""
    text = text.strip()
    match = _TYPED.match(text)
    if match and _TYPE_NAME.fullmatch(match["type"]):
        return match["type"], (match["text"] or "").strip()[:MESSAGE_CHARACTERS]
    if match and "." in match["type"] and match["type"].rpartition(".")[2][:1].isupper() and match["text"] is not None:
        return match["type"], match["text"].strip()[:MESSAGE_CHARACTERS]
    return (_ASSERTION if text.startswith("assert ") else ""), text[:MESSAGE_CHARACTERS]


def _shorten_type(name: str) -> str:
    return re.split(r"[.$]", name.strip())[-1][:100] if name.strip() else ""


def _get_first_line(lines: Sequence[str]) -> str:
    return next((line.strip() for line in lines if line.strip()), "")[:MESSAGE_CHARACTERS]
