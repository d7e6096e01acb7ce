"""Links between documents lead to files and headings that exist."""

import re
import subprocess
from functools import cache
from pathlib import Path

from .tree import ROOT, named

_TEMPLATE = ROOT / "libs/contracts/src/skillbus/contracts/documents/guide.md"
"""Becomes docs/contracts.md, and its links lead from there."""


def test_links_between_documents_lead_to_files_and_headings() -> None:
    listed = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split()
    documents = [ROOT / name for name in listed if ROOT / name != _TEMPLATE]
    assert len(documents) > 30
    dead = [
        f"{named(document)}: {link}"
        for document in documents
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", "\n".join(_prose(document))))
        if not re.match(r"[a-z]+:", link) and not _leads_somewhere(document, link)
    ]
    assert dead == []


def _leads_somewhere(document: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    return target.exists() and (not heading or target.suffix != ".md" or heading in _anchors(target))


@cache
def _anchors(document: Path) -> frozenset[str]:
    """Return the anchors of the headings, as code hosts make them, and those set by hand."""
    found = set[str]()
    for line in _prose(document):
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
        if heading := re.match(r"#+ (.*)", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            found.add(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-"))
    return frozenset(found)


@cache
def _prose(document: Path) -> tuple[str, ...]:
    """Return the lines outside of code blocks."""
    lines, code = list[str](), False
    for line in document.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            code = not code
        elif not code:
            lines.append(line)
    return tuple(lines)
