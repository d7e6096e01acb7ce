"""Reads unified diffs as git writes them (`git diff`, `git show`, `format-patch`) and plain `diff -u` output."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)")
GIT_HEADER = re.compile(r'diff --git (?:"?a/(.*?)"?) (?:"?b/(.*?)"?)$')
OCTAL = re.compile(r"((?:\\[0-7]{3})+)")
DEVELOPMENT_NULL = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """`section` is what git prints behind the @@: the function the change lies in."""

    section: str
    added: Sequence[str]
    removed: Sequence[str]


@dataclass(slots=True)
class FileChange:
    """Filled line by line while one file's part of the diff is read."""

    path: str
    old_path: str
    status: str = "modified"  # added, deleted, modified, renamed
    binary: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def added(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.added]

    @property
    def removed(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.removed]


def parse_diff(text: str) -> list[FileChange]:
    """The files of the diff in order; an empty list when the text holds no diff."""
    changes: list[FileChange] = []
    lines = iter(text.split("\n"))
    pending: FileChange | None = None
    for raw in lines:
        line = raw.rstrip("\r")
        if header := GIT_HEADER.match(line):
            pending = FileChange(unquoted(header[2]), unquoted(header[1]))
            changes.append(pending)
        elif line.startswith("--- ") and (pending is None or pending.hunks):
            pending = FileChange("", path_in(line))
            changes.append(pending)
        elif pending is not None and (start := HUNK.match(line)):
            pending.hunks.append(read_hunk(start, lines))
        elif pending is not None:
            read_header(line, pending)
    return [change for change in changes if change.path]


def read_header(line: str, change: FileChange) -> None:
    word, _, rest = line.partition(" ")
    match word:
        case "new":
            change.status = "added" if rest.startswith("file mode") else change.status
        case "deleted":
            change.status = "deleted"
        case "rename":
            change.status = "renamed"
            take_rename(rest, change)
        case "---" if path_in(line) == DEVELOPMENT_NULL:
            change.status = "added"
        case "+++":
            take_new_path(path_in(line), change)
        case "Binary" | "GIT":
            change.binary = True


def take_rename(rest: str, change: FileChange) -> None:
    side, _, path = rest.partition(" ")
    if side == "from":
        change.old_path = unquoted(path.strip('"'))
    elif side == "to":
        change.path = unquoted(path.strip('"'))


def take_new_path(path: str, change: FileChange) -> None:
    if path == DEVELOPMENT_NULL:
        change.status, change.path = "deleted", change.old_path
        return
    if change.old_path == DEVELOPMENT_NULL:
        change.status = "added"
    change.path = path


def read_hunk(start: re.Match[str], lines: Iterator[str]) -> Hunk:
    """Takes as many lines as the hunk's header counts, so that a removed `-- x` is not read as a file's `--- x`."""
    old_left, new_left = (int(count) if count else 1 for count in start.group(1, 2))
    added: list[str] = []
    removed: list[str] = []
    while old_left > 0 or new_left > 0:
        line = next(lines, None)
        if line is None:
            break
        sign, content = line[:1], line[1:].rstrip("\r")
        if sign == "+":
            added.append(content)
        elif sign == "-":
            removed.append(content)
        old_left -= sign not in {"+", "\\"}
        new_left -= sign not in {"-", "\\"}
    return Hunk(start[3].strip(), added, removed)


def path_in(line: str) -> str:
    """The path of a `--- a/x` or `+++ b/x` line, without the time that plain diff appends."""
    path = unquoted(line[4:].split("\t", maxsplit=1)[0].strip().strip('"'))
    return path[2:] if path.startswith(("a/", "b/")) else path


def unquoted(path: str) -> str:
    """Git writes bytes beyond ASCII as octal escapes."""

    def characters(match: re.Match[str]) -> str:
        return bytes(int(code, 8) & 255 for code in match[1].split("\\")[1:]).decode("utf-8", "replace")

    return OCTAL.sub(characters, path)
