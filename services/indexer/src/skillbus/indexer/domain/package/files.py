"""The files of a skill, by their path inside it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from skillbus.contracts.indexer.skill_record import Runtime

_SUFFIXES = {
    ".py": Runtime.PYTHON,
    ".js": Runtime.NODE,
    ".mjs": Runtime.NODE,
    ".cjs": Runtime.NODE,
    ".sh": Runtime.BASH,
    ".bash": Runtime.BASH,
}
_SHEBANG = re.compile(rb"#!\s*\S*?/?(?:env\s+(?:-S\s+)?)?(?:\S*/)?(python|node|bash|sh)[\d.]*(?:\s|$)")
_INTERPRETERS = {b"python": Runtime.PYTHON, b"node": Runtime.NODE, b"bash": Runtime.BASH, b"sh": Runtime.BASH}
_NOT_TO_RUN = re.compile(r"__init__\.py|conftest\.py|.*\.(test|spec|config|min)\.\w+")
_MAYBE_A_TEST = re.compile(r"(test_.*|.*_test)\.py")
_TEST_LIBRARY = re.compile(rb"^[ \t]*(import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)
_NOT_TO_LOOK = frozenset({"test", "tests", "__tests__", "node_modules", "__pycache__", "site-packages"})
_SHEBANG_FILE_BYTES = 256 * 1024
"""A file without a suffix is looked into only up to this size."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file of a skill."""

    path: str
    size_bytes: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """What is in a skill, and how to read it. Paths have forward slashes and no prefix."""

    by_path: Mapping[str, PackageFile]
    read: Callable[[str], bytes]

    @property
    def paths(self) -> frozenset[str]:
        """Every path."""
        return frozenset(self.by_path)


@dataclass(frozen=True, slots=True)
class Script:
    """A file that a runtime can run."""

    path: str
    runtime: Runtime
    size_bytes: int


def runtime_of(path: str, read: Callable[[str], bytes]) -> Runtime | None:
    """What runs a file, by its suffix or else its shebang; None if nothing here does."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix:
        return _SUFFIXES.get(suffix)
    shebang = _SHEBANG.match(read(path)[:128])
    return _INTERPRETERS[shebang[1]] if shebang else None


def scripts_of(files: Iterable[tuple[str, int]], read: Callable[[str], bytes]) -> tuple[Script, ...]:
    """The scripts among files of (path, bytes), in the order of their paths; tests and package markers are none."""
    found: list[Script] = []
    for path, size_bytes in sorted(files):
        *folders, name = path.split("/")
        if _NOT_TO_RUN.fullmatch(name) or any(folder in _NOT_TO_LOOK or folder[0] == "." for folder in folders):
            continue
        if _MAYBE_A_TEST.fullmatch(name) and _is_test(read(path)):
            continue
        if name[0] == "." or ("." not in name and size_bytes > _SHEBANG_FILE_BYTES):
            continue
        runtime = runtime_of(path, read)
        if runtime is not None:
            found.append(Script(path, runtime, size_bytes))
    return tuple(found)


def _is_test(source: bytes) -> bool:
    # A tool that makes or runs tests may be called like one.
    return b"__main__" not in source or _TEST_LIBRARY.search(source) is not None
