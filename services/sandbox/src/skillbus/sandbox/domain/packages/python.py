"""Parser of `requirements.txt` and of inline script metadata (PEP 723).

It accepts names, extras, versions, markers (PEP 508) and hashes. It refuses everything that would reach beyond the
index: URLs, paths, editable packages, other files, options.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.domain.errors import DependenciesInvalid
from skillbus.sandbox.domain.packages.requirements import REQUIREMENTS_MAX, Requirements, excerpt

_REQUIREMENT_CHARACTERS: Final = 4096
"""Longest requirement without its hashes."""
_HASH: Final = re.compile(r"--hash[= ]\s*((?:sha256|sha384|sha512):[0-9a-f]+)\s*")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")
_ARCHIVES: Final = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".egg")
_BLOCK: Final = re.compile(r"# /// ([A-Za-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a requirement, for error messages."""

    where: str
    number: int
    line: str

    def refused(self, reason: str) -> DependenciesInvalid:
        return DependenciesInvalid(f"{self.where}, line {self.number}: `{excerpt(self.line)}`: {reason}")


def parse_requirements_txt(text: str, where: str) -> Requirements | None:
    """Return the requirements of a `requirements.txt`, None if it lists none. Raises DependenciesInvalid."""
    return _requirements([_normalize(place) for place in _lines(text, where)], where)


def find_script_block(text: str, where: str) -> str | None:
    """Return the TOML of the script's block `script` (PEP 723), None if it has none.

    Raises DependenciesInvalid if it has several.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    found, at = list[str](), 0
    while at < len(lines):
        begun = _BLOCK.fullmatch(lines[at])
        at += 1
        if begun is None:
            continue
        end = at
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            end += 1
        closed = [number for number in range(at, end) if lines[number] == "# ///"]
        if not closed:
            at = end
        else:
            # The last closing line of the comment counts (PEP 723).
            if begun.group(1) == "script":
                found.append("\n".join(line[2:] for line in lines[at : closed[-1]]))
            at = closed[-1] + 1
    if len(found) > 1:
        raise DependenciesInvalid(f"{where} has {len(found)} blocks `# /// script`: PEP 723 allows one")
    return found[0] if found else None


def parse_script_block(block: str, where: str) -> Requirements | None:
    """Return the requirements of a PEP 723 block, None if it lists none. Raises DependenciesInvalid."""
    try:
        table = tomllib.loads(block)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DependenciesInvalid(f"{where}: the block `# /// script` is not TOML: {excerpt(str(error))}") from error
    listed, python, tools = table.get("dependencies", []), table.get("requires-python", ""), table.get("tool", {})
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise DependenciesInvalid(f"{where}: `dependencies` must be a list of strings")
    try:
        supported = SpecifierSet(str(python))
    except InvalidSpecifier as error:
        raise DependenciesInvalid(f"{where}: `requires-python` must be versions like `>=3.11`") from error
    if isinstance(tools, dict) and "uv" in tools:
        raise DependenciesInvalid(f"{where}: remove `[tool.uv]`: the operator chooses the package index")
    entries = [_normalize(_Place(where, number, item.strip())) for number, item in enumerate(listed, start=1)]
    return _requirements(entries, where, str(supported))


def _requirements(entries: list[str], where: str, python: str = "") -> Requirements | None:
    if len(entries) > REQUIREMENTS_MAX:
        raise DependenciesInvalid(f"{where} lists {len(entries)} packages, the limit is {REQUIREMENTS_MAX}")
    if not entries:
        return None
    return Requirements(Runtime.PYTHON, "".join(f"{entry}\n" for entry in sorted(set(entries))), python=python)


def _lines(text: str, where: str) -> Iterator[_Place]:
    """Yield requirements with the number of their first line; a backslash at the end continues a line."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if joined else number
        bare = _COMMENT.sub("", line)
        if bare.endswith("\\"):
            joined += bare[:-1] + " "
            continue
        whole, joined = (joined + bare).strip(), ""
        if whole:
            yield _Place(where, first, whole)
    if joined.strip():
        yield _Place(where, first, joined.strip())


def _normalize(place: _Place) -> str:
    wanted, _, options = place.line.partition(" --")
    reason = _find_refusal(place.line, wanted.partition(";")[0])
    if reason:
        raise place.refused(reason)
    if len(wanted) > _REQUIREMENT_CHARACTERS:
        raise place.refused(f"a requirement has at most {_REQUIREMENT_CHARACTERS} characters")
    try:
        requirement = Requirement(wanted)
    except (InvalidRequirement, RecursionError) as error:
        raise place.refused("this is not a requirement: write it as `name[extra]>=1,<2; marker`") from error
    if requirement.url is not None:
        raise place.refused("packages come from the index only, not from a URL")
    extras = ",".join(sorted(map(canonicalize_name, requirement.extras)))
    said = canonicalize_name(requirement.name) + (f"[{extras}]" if extras else "") + str(requirement.specifier)
    if requirement.marker is not None:
        said += f" ; {requirement.marker}"
    return " ".join((said, *_hashes(f"--{options}" if options else "", place)))


def _find_refusal(line: str, wanted: str) -> str:
    """Return the reason to refuse a line that reaches beyond the index, empty if it does not."""
    if line.startswith("-"):
        return "options, other files and editable packages are not supported: list each package by name"
    if "://" in line:
        return "packages come from the index only, not from a URL"
    if "/" in wanted or "\\" in wanted or wanted.startswith(".") or wanted.strip().lower().endswith(_ARCHIVES):
        return "packages come from the index only, not from a file"
    return ""


def _hashes(options: str, place: _Place) -> Iterator[str]:
    found, at = set[str](), 0
    while at < len(options):
        one = _HASH.match(options, at)
        if one is None:
            raise place.refused("a requirement has no option but --hash with sha256, sha384 or sha512")
        found.add(one.group(1))
        at = one.end()
    yield from (f"--hash={digest}" for digest in sorted(found))


def is_python_supported(version: Sequence[int], wanted: str) -> bool:
    """Return True if `version`, like (3, 11, 2), satisfies `requires-python`, like `>=3.11,<4`."""
    return SpecifierSet(wanted).contains(".".join(map(str, version)), prereleases=True)
