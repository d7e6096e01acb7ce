"""Errors of a command, and the exit code of each.

```text
CliError                   exit 1
├── ProblemError           the server sent a problem document
├── StrangeReplyError      the reply is from another program, or from another version of skillbus
├── NoAnswerError          the connection broke off, or the reply did not arrive in time
├── UnreachableError       exit 3: no server listens at the address
├── LocalFileError         a local file cannot be read, packed or written
├── NotASkillError         a folder has no SKILL.md, or contains what cannot be installed
├── GitError               a commit of a git repository cannot be fetched
├── StartFailedError       the one-process server did not start
├── ModelTestFailedError   a model was added, and gave no answer to a test call
├── RunFailedError         a run ended with another status than ok
├── CannotCalibrateError   the judged data or the vectors are not enough for a fit; nothing was saved
├── CannotEvaluateError    the measured system does not start, refuses a tool, or does not answer
├── DemoFailedError        a step of the demo failed
├── NotImportedError       tools, knowledge items, devices or commands were rejected; the others are imported
├── NotRemovedError        some of the things to remove do not exist; the others are removed
├── NotResolvedError       a spoken command has no device, no command, or waits for an answer to a question
├── LearningFailedError    a job that learns failed, or its source is switched off
├── NotReviewedError       knowledge items could not be approved or rejected; the others are
├── ToolFailedError        a called tool reported an error
├── StoppedError           a signal arrived before the work was done
├── SwitchNotBegunError    the default model changed, but an index does not switch to it
└── SwitchRolledBackError  an operator returned an index to its model of before
```

Wrong usage is Typer's `BadParameter`: exit 2.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, Self

EXIT_FAILED: Final = 1
EXIT_UNREACHABLE: Final = 3

_DETAIL_IS_TITLE: Final = frozenset({"skill_not_found", "not_found", "unknown_action", "conflict", "not_callable"})
"""Codes of problems with a detail that repeats the title with names filled in, or says it better."""
_COMMANDS: Final = {
    "get_knowledge_history": "skillbus knowledge history",
    "list_devices": "skillbus devices list",
    "list_homes": "skillbus homes list",
    "list_knowledge": "skillbus knowledge list",
    "list_learning_jobs": "skillbus learn jobs",
    "list_models": "skillbus models list",
    "list_providers": "skillbus providers list",
    "put_commands": "skillbus commands import",
    "put_devices": "skillbus devices import",
    "review_knowledge": "skillbus knowledge review",
    "update_model": "skillbus models update",
}
"""Commands for operations that messages of services name."""
_USUAL_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "code", "retryable", "instance"})


class CliError(Exception):
    """A command failed. `detail` is the cause, `advice` the next step, `code` names the case for programs."""

    exit_code: ClassVar[int] = EXIT_FAILED
    title: ClassVar[str] = "The command failed"
    code: ClassVar[str] = "failed"

    def __init__(self, detail: str, advice: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.advice = advice

    def heading(self) -> str:
        """Return the first line for people."""
        return self.title

    def lines(self) -> tuple[str, ...]:
        """Return the lines below the heading."""
        return (self.detail,) if self.detail else ()

    def document(self) -> dict[str, object]:
        """Return the error for programs."""
        return {"title": self.title, "code": self.code, "detail": self.detail, "advice": self.advice}


class ProblemError(CliError):
    """A problem document of the server (RFC 9457), kept whole."""

    def __init__(self, problem: Mapping[str, object], status: int, advice: str) -> None:
        super().__init__(name_commands(str(problem.get("detail") or "")), advice)
        self.problem = dict(problem)
        self.status = status
        self.problem_code = str(problem.get("code") or "")
        self.near_names: list[str] = []
        """Known names near to one that the server does not know."""

    def heading(self) -> str:
        """Return the title, or a detail that repeats it with names filled in, followed by code and status."""
        title = self.detail if self._detail_is_title() else str(self.problem.get("title") or "The server refused")
        # A stream that has begun has the status of a success.
        status = f"HTTP {self.status}" if self.status >= 400 else ""
        known = ", ".join(filter(None, (self.problem_code, status)))
        return f"{title} ({known})"

    def lines(self) -> tuple[str, ...]:
        """Return the detail, one line for each finding, and one for each other member. Repetitions are left out."""
        members = {name: value for name, value in self.problem.items() if name not in _USUAL_MEMBERS}
        details = members.pop("details", None)
        if isinstance(details, dict):
            members |= details
        findings, others = _split_members(members)
        detail = self.detail.removeprefix("$: ")
        is_repeated = self._detail_is_title() or any(message in detail for message in findings.values())
        lines = [*([] if is_repeated else [detail]), *findings]
        printed = "\n".join((self.heading(), *lines, self.detail))
        for name, text in others:
            if not re.search(rf"(?<!\w){re.escape(text)}(?!\w)", printed):
                lines.append(f"{name}: {text}")
        return tuple(filter(None, lines))

    def document(self) -> dict[str, object]:
        """Return the problem document with the advice added."""
        document = {**self.problem, "status": self.status, "code": self.problem_code, "advice": self.advice}
        return document | {"did_you_mean": self.near_names} if self.near_names else document

    def _detail_is_title(self) -> bool:
        return bool(self.detail) and self.problem_code in _DETAIL_IS_TITLE


def name_commands(text: str) -> str:
    """Replace names of operations by the commands of this command line that do the same."""
    return re.sub(r"`(\w+)`", lambda found: f"`{_COMMANDS.get(found[1], found[1])}`", text)


def _split_members(members: Mapping[str, object]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Split members into findings, as a line mapped to its message, and the names and texts of the rest."""
    findings: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name, value in members.items():
        for item in value if isinstance(value, list) else [value]:
            message = _format_value(item.get("message") or item.get("problem") or "") if isinstance(item, dict) else ""
            if message and isinstance(item, dict):
                warning = "warning: " if name == "warnings" else ""
                where = item.get("where") or item.get("field")
                place = f"{_format_value(where)}: " if where else ""
                code = f" ({_format_value(item['code'])})" if item.get("code") else ""
                findings[f"{warning}{place}{message}{code}"] = message
            elif item is not None and item not in ("", [], {}):
                others.append((name, _format_value(item)))
    return findings, others


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class StrangeReplyError(CliError):
    title = "The reply is not one of skillbus"
    code = "strange_reply"


class NoAnswerError(CliError):
    title = "No reply arrived"
    code = "no_answer"


class UnreachableError(CliError):
    exit_code = EXIT_UNREACHABLE
    title = "The server cannot be reached"
    code = "unreachable"


class LocalFileError(CliError):
    title = "A local file cannot be used"
    code = "local_file"

    @classmethod
    def from_os_error(
        cls, path: Path | str, error: OSError, advice: str = "Check the path and its permissions."
    ) -> Self:
        """Build the error for a file that the operating system refuses."""
        return cls(f"{path}: {error.strerror or error}", advice)


class NotASkillError(CliError):
    title = "Not a skill"
    code = "not_a_skill"


class GitError(CliError):
    title = "The repository cannot be fetched"
    code = "git_failed"


class StartFailedError(CliError):
    title = "skillbus did not start"
    code = "start_failed"


class ModelTestFailedError(CliError):
    title = "The test call failed"
    code = "model_test_failed"


class RunFailedError(CliError):
    title = "The run failed"
    code = "run_failed"


class CannotCalibrateError(CliError):
    title = "The model cannot be calibrated"
    code = "cannot_calibrate"


class CannotEvaluateError(CliError):
    title = "Search cannot be measured"
    code = "cannot_evaluate"


class DemoFailedError(CliError):
    title = "The demo failed"
    code = "demo_failed"


class SwitchNotBegunError(CliError):
    title = "The index does not switch"
    code = "switch_not_begun"


class SwitchRolledBackError(CliError):
    title = "The switch was rolled back"
    code = "switch_rolled_back"


class NotImportedError(CliError):
    title = "The import is incomplete"
    code = "not_imported"


class NotRemovedError(CliError):
    title = "Not everything was removed"
    code = "not_removed"


class NotResolvedError(CliError):
    title = "The sentence is not resolved"
    code = "not_resolved"


class LearningFailedError(CliError):
    title = "Nothing was learned"
    code = "not_learned"


class NotReviewedError(CliError):
    title = "The review is incomplete"
    code = "not_reviewed"


class ToolFailedError(CliError):
    title = "The tool failed"
    code = "tool_failed"


class StoppedError(CliError):
    title = "Interrupted"
    code = "interrupted"
