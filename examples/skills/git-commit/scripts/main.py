"""Writes a conventional-commit message for {"diff" | "file", "language"?, "type"?, "scope"?, "subject"?}."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from classify import TYPES, classify, kind_of, new_definitions, scope_of
from diff import FileChange, parse_diff
from skillio import Arguments, SkillError, choice_of, integer_of, run, text_of, text_or_file

MAX_FILES_IN_BODY = 20

# What happened → the phrase of the subject line, {} being its object.
PHRASES: Mapping[str, Mapping[str, str]] = {
    "zh": {
        "add": "新增 {}",
        "remove": "移除 {}",
        "rename": "将 {} 改名为 {}",
        "update": "更新 {}",
        "fix": "修复 {} 的问题",
        "style": "调整 {} 的格式",
        "perf": "提升 {} 的性能",
        "refactor": "重构 {}",
        "more": " 等 {} 项",
    },
    "en": {
        "add": "add {}",
        "remove": "remove {}",
        "rename": "rename {} to {}",
        "update": "update {}",
        "fix": "correct {}",
        "style": "reformat {}",
        "perf": "speed up {}",
        "refactor": "restructure {}",
        "more": " and {} more",
    },
}
STATUS = {"zh": {"added": "新增", "deleted": "删除", "modified": "修改", "renamed": "改名"}}

WARNINGS: Mapping[str, re.Pattern[str]] = {
    "conflict marker": re.compile(r"^(<{7}|>{7})( |$)"),
    "possible secret": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{30,}|\bsk-[A-Za-z0-9_-]{20,}|"
        r"(?i:\b(?:password|passwd|secret|api_?key|token)\b\s*[:=]\s*[\"'][^\"'\s]{8,}[\"'])"
    ),
    "debugging statement": re.compile(r"^\s*(breakpoint\(\)|import pdb|pdb\.set_trace\(\)|debugger;?|console\.log\()"),
}


def write_message(arguments: Arguments) -> dict[str, object]:
    language = choice_of(arguments, "language", tuple(PHRASES), "zh")
    changes = parse_diff(text_or_file(arguments, text_key="diff"))
    if not changes:
        raise SkillError("no changes found; give the output of 'git diff --cached' (is anything staged?)")
    verdict = classify(changes)
    kind = choice_of(arguments, "type", TYPES, verdict.type)
    scope = text_of(arguments, "scope", scope_of(changes)).strip()
    prefix = f"{kind}({scope}): " if scope else f"{kind}: "
    subject = one_line(text_of(arguments, "subject", subject_of(kind, changes, PHRASES[language])))
    subject = shortened(subject, integer_of(arguments, "max_length", 72, 30, 200) - len(prefix))
    body = body_of(changes, language)
    return {
        "message": f"{prefix}{subject}\n\n{body}\n",
        "type": kind,
        "scope": scope or None,
        "subject": subject,
        "body": body,
        "confidence": "given" if "type" in arguments else verdict.confidence,
        "reason": "type given" if "type" in arguments else verdict.reason,
        "files": [file_entry(change) for change in changes],
        "warnings": warnings_of(changes),
    }


def one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise SkillError("the subject is empty")
    return line


def shortened(subject: str, room: int) -> str:
    if room < 10:
        raise SkillError("the scope leaves no room for a subject; shorten it or raise 'max_length'")
    return subject if len(subject) <= room else subject[: room - 1].rstrip() + "…"


def subject_of(kind: str, changes: Sequence[FileChange], phrases: Mapping[str, str]) -> str:
    code = [change for change in changes if kind_of(change.path) == "code"] or list(changes)
    fresh = [change for change in code if change.status == "added"]
    names = [PurePosixPath(change.path).name for change in code]
    if all(change.status == "deleted" for change in code):
        return phrases["remove"].format(listed(names, phrases))
    if len(code) == 1 and code[0].status == "renamed" and not code[0].hunks:
        return phrases["rename"].format(PurePosixPath(code[0].old_path).name, names[0])
    if fresh and kind in {"feat", "docs", "test", "ci", "build", "chore"}:
        return phrases["add"].format(listed([PurePosixPath(change.path).name for change in fresh], phrases))
    if kind == "feat" and (defined := new_definitions(code)):
        return phrases["add"].format(listed(defined, phrases))
    verb = kind if kind in phrases else "update"
    return phrases[verb].format(listed(touched(code) or names, phrases))


def touched(changes: Sequence[FileChange]) -> list[str]:
    """Names of the functions that git saw the changes in, when it saw them for every file."""
    sections = [hunk.section for change in changes for hunk in change.hunks]
    found = [re.search(r"(?:def|class|function|func|fn)\s+(\w+)|(\w+)\s*\(", section) for section in sections]
    names = [match[1] or match[2] for match in found if match]
    return list(dict.fromkeys(names)) if len(names) == len(sections) else []


def listed(names: Sequence[str], phrases: Mapping[str, str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = phrases["more"].format(len(distinct) - 2 if "and" in phrases["more"] else len(distinct))
    comma = ", " if "and" in phrases["more"] else "、"
    return comma.join(distinct[:2]) + (more if len(distinct) > 2 else "")


def body_of(changes: Sequence[FileChange], language: str) -> str:
    lines = [body_line(change, STATUS.get(language, {})) for change in changes[:MAX_FILES_IN_BODY]]
    if len(changes) > MAX_FILES_IN_BODY:
        lines.append(f"- … +{len(changes) - MAX_FILES_IN_BODY}")
    return "\n".join(lines)


def body_line(change: FileChange, words: Mapping[str, str]) -> str:
    what = words.get(change.status, change.status)
    size = "binary" if change.binary else f"+{len(change.added)} -{len(change.removed)}"
    return f"- {what} {change.path} ({size})"


def file_entry(change: FileChange) -> dict[str, object]:
    entry: dict[str, object] = {"path": change.path, "status": change.status}
    if change.status == "renamed":
        entry["old_path"] = change.old_path
    return entry | {"added": len(change.added), "removed": len(change.removed), "binary": change.binary}


def warnings_of(changes: Sequence[FileChange]) -> list[str]:
    """Which file holds what; never the line itself, which may be the secret."""
    return [
        f"{what} in {change.path}"
        for change in changes
        for what, pattern in WARNINGS.items()
        if any(pattern.search(line) for line in change.added)
    ]


if __name__ == "__main__":
    run(write_message)
