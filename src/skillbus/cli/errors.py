"""Why a command fails, and the exit code that says so.

```text
CliError                 exit 1
├── ProblemError         the server refused, with a problem document
├── StrangeReplyError    something answered, but not as skillbus does
├── NoAnswerError        the connection broke off, or the answer did not come in time
├── UnreachableError     exit 3: nobody listens at the address
├── LocalFileError       a file here cannot be read, packed or written
├── NotASkillError       a folder here has no SKILL.md
├── StartFailedError     the one-process server did not start
├── RunFailedError       a run ended otherwise than well
├── CannotCalibrateError what was judged, or the model's vectors, are not enough to fit anything
├── DemoFailedError      a step of the demo did not give what it should
├── NotImportedError     descriptions of tools, or items of knowledge, were rejected
├── NotReviewedError     items of knowledge were neither approved nor rejected
├── ToolFailedError      a tool that was called says that it failed
├── StoppedError         a signal came before the work was done
├── SwitchNotBegunError  an index is not on its way to the model that is followed
└── SwitchGivenUpError   a change to another model was rolled back
```

Wrong usage is Typer's `BadParameter`: exit 2.
"""

import json
import re
from collections.abc import Mapping
from typing import ClassVar, Final

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

_DETAIL_IS_TITLE: Final = frozenset({"skill_not_found", "not_found", "unknown_action", "conflict"})
"""Codes whose detail says the title once more, with the names filled in, or better than it."""


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

    def lines(self) -> tuple[str, ...]:
        """What people read below it."""
        return (self.detail,) if self.detail else ()

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
        """The problem's title, or a detail that says it with the names filled in; with code and status."""
        title = self.detail if self._detail_is_title() else str(self.problem.get("title") or "The server refused")
        known = ", ".join(filter(None, (self.problem_code, f"HTTP {self.status}")))
        return f"{title} ({known})"

    def lines(self) -> tuple[str, ...]:
        """The detail, one line for each finding, and one for each other member; what was said before is left out."""
        usual = {"type", "title", "status", "detail", "code", "retryable", "instance"}
        members = {name: value for name, value in self.problem.items() if name not in usual}
        details = members.pop("details", None)
        if isinstance(details, dict):
            members |= details
        findings, others = _findings(members)
        told = self.detail.removeprefix("$: ")
        said_below = any(message in told for message in findings.values())
        shown = [] if self._detail_is_title() or said_below else [told]
        shown += findings
        said = "\n".join((self.heading(), *shown, self.detail))
        return tuple(filter(None, (*shown, *(f"{name}: {text}" for name, text in others if not _is_said(text, said)))))

    def _detail_is_title(self) -> bool:
        return bool(self.detail) and self.problem_code in _DETAIL_IS_TITLE

    def document(self) -> dict[str, object]:
        """The problem document, with the advice added."""
        return {**self.problem, "status": self.status, "code": self.problem_code, "advice": self.advice}


def _findings(members: Mapping[str, object]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The members as findings, by the line that shows one, with its message; and as the names and texts of the rest."""
    findings: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name, value in members.items():
        for item in value if isinstance(value, list) else [value]:
            message = _message(item)
            if message and isinstance(item, dict):
                findings[_finding(name, item, message)] = message
            elif item is not None and item not in ("", [], {}):
                others.append((name, _short(item)))
    return findings, others


def _finding(kind: str, item: Mapping[str, object], message: str) -> str:
    where = item.get("where") or item.get("field") or ""
    code = item.get("code") or ""
    warning = "warning: " if kind == "warnings" else ""
    return warning + (f"{_short(where)}: " if where else "") + message + (f" ({_short(code)})" if code else "")


def _message(item: object) -> str:
    return _short(item.get("message") or item.get("problem") or "") if isinstance(item, dict) else ""


def _is_said(text: str, said: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None


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


class NotASkillError(CliError):
    """A folder without a SKILL.md."""

    title = "Not a skill"
    code = "not_a_skill"


class StartFailedError(CliError):
    """The server did not start."""

    title = "skillbus did not start"
    code = "start_failed"


class RunFailedError(CliError):
    """The skill ran and ended with another status than `ok`."""

    title = "The run did not end well"
    code = "run_failed"


class CannotCalibrateError(CliError):
    """Nothing was fitted, and nothing saved."""

    title = "The model cannot be calibrated"
    code = "cannot_calibrate"


class DemoFailedError(CliError):
    """A step of the demo."""

    title = "The demo does not work"
    code = "demo_failed"


class SwitchNotBegunError(CliError):
    """The default is another one, but the index stays as it is."""

    title = "The index does not change"
    code = "switch_not_begun"


class SwitchGivenUpError(CliError):
    """Somebody went back to the model before."""

    title = "The change was rolled back"
    code = "switch_rolled_back"


class NotImportedError(CliError):
    """The others were taken."""

    title = "Not everything was taken"
    code = "not_imported"


class NotReviewedError(CliError):
    """The others were reviewed."""

    title = "Not every item was reviewed"
    code = "not_reviewed"


class ToolFailedError(CliError):
    """It was called, and answered with an error of its own."""

    title = "The tool failed"
    code = "tool_failed"


class StoppedError(CliError):
    """A signal came first."""

    title = "Interrupted"
    code = "interrupted"
