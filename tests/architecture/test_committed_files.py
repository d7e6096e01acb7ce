"""What is committed works on any machine: it names no folder of the one it was written on, and no package registry."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from .tree import ROOT, committed_files, named

_LOCKS: Final = {"uv.lock"}
"""Written by tools, which cannot leave out where a package comes from."""
_REGISTRIES: Final = (
    ("pypi", "org"), ("files", "pythonhosted", "org"), ("registry", "npmjs", "org"), ("deb", "debian", "org"),
    ("docker", "io"), ("ghcr", "io"), ("quay", "io"), ("proxy", "golang", "org"),
)  # fmt: skip
_HOST: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(re.escape('.'.join(parts)) for parts in _REGISTRIES)})(?![\w-])")
_PERSONAL: Final = re.compile(r"(?<![\w.}/])/(?:root|home/[a-z][\w-]*|Users/[A-Za-z][\w-]*)/[\w.]")
_SHARED: Final = re.compile(re.escape(str(ROOT)) + r"(?![\w-])")


def findings(text: str) -> Iterator[str]:
    for pattern in (_HOST, _PERSONAL, _SHARED):
        yield from (found[0] for found in pattern.finditer(text))


def text_of(file: Path) -> str:
    """The text of a file; nothing of one that is not text."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_committed_files_name_no_machine_and_no_registry() -> None:
    found = {
        f"{named(file)}: {what}"
        for file in committed_files()
        if named(file) not in _LOCKS
        for what in findings(text_of(file))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        f"index = https://{'.'.join(_REGISTRIES[0])}/simple",
        f"see {ROOT}/README.md",
        "open('/root" + "/notes.txt')",
        "cd /home" + "/anna/skillbus",
    ],
)
def test_each_kind_is_found(text: str) -> None:
    assert list(findings(text))


@pytest.mark.parametrize("text", ["/homepage/x", "https://example.org/root/x", "the folder /root", "$HOME/home/x/y"])
def test_what_only_looks_like_it_is_not_found(text: str) -> None:
    assert not list(findings(text))
