"""Files of a skill by their path inside it, and the scripts among them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime

_SUFFIXES: Final = {
    ".py": Runtime.PYTHON,
    ".js": Runtime.NODE,
    ".mjs": Runtime.NODE,
    ".cjs": Runtime.NODE,
    ".sh": Runtime.BASH,
    ".bash": Runtime.BASH,
}
_SHEBANG: Final = re.compile(rb"#!\s*\S*?/?(?:env\s+(?:-S\s+)?)?(?:\S*/)?(python|node|bash|sh)[\d.]*(?:\s|$)")
_INTERPRETERS: Final = {b"python": Runtime.PYTHON, b"node": Runtime.NODE, b"bash": Runtime.BASH, b"sh": Runtime.BASH}
_NO_SCRIPT: Final = re.compile(r"__init__\.py|conftest\.py|.*\.(test|spec|config|min)\.\w+")
_TEST_NAME: Final = re.compile(r"(test_.*|.*_test)\.py")
_TEST_LIBRARY: Final = re.compile(rb"^[ \t]*(import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)
_SKIPPED_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "node_modules", "__pycache__", "site-packages"})
_SHEBANG_FILE_BYTES: Final = 256 * 1024
"""Largest file without a suffix that is searched for a shebang."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file of a skill."""

    path: str
    size_bytes: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """The files of a skill. Paths have forward slashes and no prefix."""

    by_path: Mapping[str, PackageFile]
    read: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Script:
    """A file that a runtime can run."""

    path: str
    runtime: Runtime
    size_bytes: int


def detect_runtime(path: str, read: Callable[[str], bytes]) -> Runtime | None:
    """Return the runtime of a file by its suffix or else its shebang; None if no runtime runs it."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix:
        return _SUFFIXES.get(suffix)
    shebang = _SHEBANG.match(read(path)[:128])
    return _INTERPRETERS[shebang[1]] if shebang else None


def find_scripts(files: Iterable[tuple[str, int]], read: Callable[[str], bytes]) -> tuple[Script, ...]:
    """Find the scripts among files of (path, bytes), sorted by path. Tests and package markers do not count."""
    found: list[Script] = []
    for path, size_bytes in sorted(files):
        *folders, name = path.split("/")
        if _NO_SCRIPT.fullmatch(name) or any(folder in _SKIPPED_FOLDERS or folder[0] == "." for folder in folders):
            continue
        if _TEST_NAME.fullmatch(name):
            source = read(path)
            # A tool that makes or runs tests may have the name of a test.
            if b"__main__" not in source or _TEST_LIBRARY.search(source):
                continue
        if name[0] == "." or ("." not in name and size_bytes > _SHEBANG_FILE_BYTES):
            continue
        runtime = detect_runtime(path, read)
        if runtime is not None:
            found.append(Script(path, runtime, size_bytes))
    return tuple(found)
