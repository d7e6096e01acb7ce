"""Why a command fails, and the exit code that says so.

```text
CliError                 exit 1
├── ProblemError         the server refused, with a problem document
├── StrangeReplyError    something answered, but not as skillbus does
├── NoAnswerError        the connection broke off, or the answer did not come in time
├── UnreachableError     exit 3: nobody listens at the address
├── LocalFileError       a file here cannot be read, packed or written
├── StartFailedError     the one-process server did not start
├── RunFailedError       a run ended otherwise than well
├── DemoFailedError      a step of the demo did not give what it should
└── StoppedError         a signal came before the work was done
```

Wrong usage is Typer's `BadParameter`: exit 2.
"""

import json
from collections.abc import Mapping
from typing import ClassVar

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3


class CliError(Exception):
    """A command failed. `detail` says what is wrong, `advice` what to do, `code` tells programs the case."""

    exit_code: ClassVar[int] = EXIT_FAILED
    title: ClassVar[str] = "The command failed"
    code: ClassVar[str] = "failed"

    def __init__(self, detail: str, advice: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.advice = advice

    def heading(self) -> str:
        """The first line of what people read."""
        return self.title

    def notes(self) -> tuple[str, ...]:
        """Further lines for people."""
        return ()

    def document(self) -> dict[str, object]:
        """The error for programs."""
        return {"title": self.title, "code": self.code, "detail": self.detail, "advice": self.advice}


class ProblemError(CliError):
    """The server's problem document (RFC 9457), kept whole."""

    def __init__(self, problem: Mapping[str, object], status: int, advice: str) -> None:
        super().__init__(str(problem.get("detail") or ""), advice)
        self.problem = dict(problem)
        self.status = status
        self.problem_code = str(problem.get("code") or "")

    def heading(self) -> str:
        """The problem's title with its code and status."""
        title = str(self.problem.get("title") or "The server refused")
        known = ", ".join(filter(None, (self.problem_code, f"HTTP {self.status}")))
        return f"{title} ({known})"

    def notes(self) -> tuple[str, ...]:
        """One line for each finding and each other member that says something, unless `detail` says it already."""
        usual = {"type", "title", "status", "detail", "code", "retryable", "instance"}
        members = {name: value for name, value in self.problem.items() if name not in usual}
        details = members.pop("details", None)
        if isinstance(details, dict):
            members |= details
        lines = (line for name, value in members.items() for line in _lines(name, value))
        return tuple(line for line in lines if line not in self.detail)

    def document(self) -> dict[str, object]:
        """The problem document, with the advice added."""
        return {**self.problem, "status": self.status, "code": self.problem_code, "advice": self.advice}


def _lines(name: str, value: object) -> list[str]:
    if value is None or value in ("", [], {}):
        return []
    if not isinstance(value, list):
        return [f"{name}: {_short(value)}"]
    return [_finding(item) if isinstance(item, dict) else f"{name}: {_short(item)}" for item in value]


def _finding(item: Mapping[str, object]) -> str:
    where = item.get("where") or item.get("field") or ""
    message = item.get("message") or item.get("problem") or ""
    if not message:
        return _short(item)
    return f"{_short(where)}: {_short(message)}" if where else _short(message)


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class StrangeReplyError(CliError):
    """Not skillbus, or another version of it."""

    title = "The answer is not one of skillbus"
    code = "strange_reply"


class NoAnswerError(CliError):
    """The server was reached and then lost."""

    title = "No answer came"
    code = "no_answer"


class UnreachableError(CliError):
    """Nobody listens."""

    exit_code = EXIT_UNREACHABLE
    title = "The server cannot be reached"
    code = "unreachable"


class LocalFileError(CliError):
    """Something about a file on this side."""

    title = "A local file is in the way"
    code = "local_file"


class StartFailedError(CliError):
    """The server did not start."""

    title = "skillbus did not start"
    code = "start_failed"


class RunFailedError(CliError):
    """The skill ran and ended with another status than `ok`."""

    title = "The run did not end well"
    code = "run_failed"


class DemoFailedError(CliError):
    """A step of the demo."""

    title = "The demo does not work"
    code = "demo_failed"


class StoppedError(CliError):
    """A signal came first."""

    title = "Interrupted"
    code = "interrupted"
