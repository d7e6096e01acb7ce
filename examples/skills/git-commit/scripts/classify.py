"""Which conventional-commit type and scope a set of file changes has, by what kinds of files and lines it touches."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from diff import FileChange

TYPES = ("feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert")

# The first pattern that matches a path says what kind of file it is; anything else is code.
KINDS: Mapping[str, re.Pattern[str]] = {
    "ci": re.compile(
        r"(^|/)(\.github/workflows|\.circleci|\.ci)/|(^|/)(\.gitlab-ci\.ya?ml|Jenkinsfile|azure-pipelines\.yml)$"
    ),
    "test": re.compile(
        r"(^|/)(tests?|__tests__|spec|testdata)/|(^|/)(test_[^/]*|conftest)\.py$|[._-](test|spec)\.\w+$"
    ),
    "build": re.compile(
        r"(^|/)(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*\.txt|uv\.lock|poetry\.lock|package(-lock)?\.json|yarn\.lock|"
        r"pnpm-lock\.yaml|go\.(mod|sum)|Cargo\.(toml|lock)|pom\.xml|[^/]*\.gradle(\.kts)?|CMakeLists\.txt|Makefile|"
        r"[^/]*Dockerfile|docker-compose[^/]*\.ya?ml)$"
    ),
    "docs": re.compile(r"(^|/)docs?/|\.(md|mdx|rst|adoc|txt)$|(^|/)(LICENSE|README|CHANGELOG|NOTICE)[^/]*$"),
    "chore": re.compile(r"(^|/)\.[^/]+$|\.(json|ya?ml|toml|ini|cfg|properties|env)$"),
}

DEFINITION = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:public\s+|static\s+|pub(?:\([^)]*\))?\s+)*(?:async\s+)?"
    r"(?:def|class|function\*?|func(?:\s*\([^)]*\))?|fn|interface|struct|enum|trait)\s+([A-Za-z]\w*)"
)
FIX_WORDS = re.compile(r"\b(fix(es|ed)?|bug|regression|workaround|off[- ]by[- ]one)\b|修复|修正|缺陷", re.IGNORECASE)
GUARD = re.compile(
    r"^\s*(except\b|catch\b|\}\s*catch\b|raise\b|throw\b|if\b.*\b(None|null|nil|undefined|empty|len)\b|if\s*\(?\s*(!|not\b))"
)
PERFORMANCE = re.compile(r"\b(lru_cache|memoi[sz]e\w*|cached_property|useMemo|performance|perf)\b", re.IGNORECASE)
GENERIC_FOLDERS = frozenset(
    [
        "src",
        "lib",
        "libs",
        "app",
        "apps",
        "packages",
        "services",
        "pkg",
        "cmd",
        "internal",
        "main",
        "java",
        "python",
        "com",
        "org",
        "tests",
        "test",
    ]
)


@dataclass(frozen=True, slots=True)
class Verdict:
    type: str
    confidence: str  # high, medium, low
    reason: str


def kind_of(path: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if pattern.search(path)), "code")


def definitions(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(match[1] for line in lines if (match := DEFINITION.match(line))))


def new_definitions(changes: Sequence[FileChange]) -> list[str]:
    """Functions and classes that are in the added lines and in none of the removed ones."""
    gone = set(removed_names(changes))
    found = [name for change in changes for name in definitions(change.added)]
    return list(dict.fromkeys(name for name in found if name not in gone))


def removed_names(changes: Sequence[FileChange]) -> list[str]:
    return [name for change in changes for name in definitions(change.removed)]


def classify(changes: Sequence[FileChange]) -> Verdict:
    kinds = {kind_of(change.path) for change in changes}
    if len(kinds) == 1 and (only := next(iter(kinds))) != "code":
        return Verdict(only, "high", f"only {only} files changed")
    code = [change for change in changes if kind_of(change.path) == "code"]
    if not code:
        main = Counter(kind_of(change.path) for change in changes).most_common(1)[0][0]
        return Verdict(main, "medium", f"no code changed; most files are {main}")
    return classify_code(code)


def classify_code(code: Sequence[FileChange]) -> Verdict:
    added = [line for change in code for line in change.added]
    removed = [line for change in code for line in change.removed]
    if not added and not removed:
        moved = all(change.status == "renamed" for change in code)
        return (
            Verdict("refactor", "high", "files moved unchanged")
            if moved
            else Verdict("chore", "low", "no text changed")
        )
    if squeezed(added) == squeezed(removed):
        return Verdict("style", "high", "only white space differs")
    if all(change.status == "deleted" for change in code):
        return Verdict("refactor", "medium", "files were only removed")
    if any(FIX_WORDS.search(line) for line in added) and not any(change.status == "added" for change in code):
        return Verdict("fix", "medium", "an added line speaks of a fix")
    return classify_lines(code, added)


def classify_lines(code: Sequence[FileChange], added: Sequence[str]) -> Verdict:
    if any(change.status == "added" for change in code):
        return Verdict("feat", "high", "new source files")
    if any(PERFORMANCE.search(line) for line in added):
        return Verdict("perf", "medium", "caching or performance is mentioned")
    if names := new_definitions(code):
        return Verdict("feat", "medium", f"new definitions: {', '.join(names[:5])}")
    if removed_names(code):
        return Verdict("refactor", "medium", "definitions were removed, none added")
    if any(GUARD.match(line) for line in added):
        return Verdict("fix", "medium", "a check or an error path was added")
    return Verdict("refactor", "low", "existing lines were rewritten; read the diff to tell a fix from a refactoring")


def squeezed(lines: Sequence[str]) -> str:
    return "".join("".join(line.split()) for line in lines)


def scope_of(changes: Sequence[FileChange]) -> str:
    """The last telling folder that all changed code (else every file) shares; none when there is none."""
    telling = [change for change in changes if kind_of(change.path) == "code"] or list(changes)
    folders = [PurePosixPath(change.path).parts[:-1] for change in telling]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    named = [part for part in shared if part.lower() not in GENERIC_FOLDERS and not part.startswith(".")]
    return re.sub(r"[^\w.-]+", "-", named[-1]).strip("-").lower() if named else ""
