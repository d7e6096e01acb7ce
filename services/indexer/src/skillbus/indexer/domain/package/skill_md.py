"""SKILL.md: validated strictly against the Agent Skills format and installed leniently.

An error refuses the skill; a warning is reported and kept with it. Format: agentskills.io/specification.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from skillbus.common.characters import find_hidden
from skillbus.common.front_matter import (
    FrontMatterError,
    FrontMatterNode,
    FrontMatterTooLongError,
    quote_scalar,
    split_front_matter,
)
from skillbus.contracts.indexer.skill_record import SkillFinding, SkillLimits
from skillbus.indexer.domain.package.findings import FindingCode, PackageError, finding
from skillbus.indexer.domain.package.run_requests import parse_requested_limits, parse_requested_network
from skillbus.indexer.domain.package.yaml_repair import (
    FRONTMATTER_BYTES,
    SkillFrontMatter,
    find_end_of_value,
    parse_skill_front_matter,
)

SKILL_MD_BYTES: Final = 1024 * 1024
NAME_CHARACTERS: Final = 64
DESCRIPTION_CHARACTERS: Final = 1024
DESCRIPTION_HARD_CHARACTERS: Final = 16 * 1024
"""A description over the 1,024 characters of the format is kept with a warning (a public skill has one), up to this."""
_COMPATIBILITY_CHARACTERS: Final = 500
_TAGS: Final = 64
_MAX_WARNINGS: Final = 50
_SHORT_CHARACTERS: Final = 64
"""Longest tag and version."""
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPEC_FIELDS: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_Fields = Mapping[str, FrontMatterNode]


@dataclass(frozen=True, slots=True)
class SkillMd:
    """Content of a valid SKILL.md. `metadata` holds every key as text, including the keys of skillbus."""

    name: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    license: str | None
    metadata: Mapping[str, str]
    limits: SkillLimits | None = None
    network: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillMdReport:
    """Result of the validation. `skill` is present exactly if there are no errors."""

    skill: SkillMd | None
    errors: tuple[SkillFinding, ...] = ()
    warnings: tuple[SkillFinding, ...] = ()


class _Notes:
    """Findings collected while a file is read."""

    def __init__(self) -> None:
        self.errors: list[SkillFinding] = []
        self.warnings: list[SkillFinding] = []

    def add_error(self, code: FindingCode, message: str) -> None:
        self.errors.append(finding(code, message, "SKILL.md"))

    def add_warning(self, code: FindingCode, message: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(finding(code, message, "SKILL.md"))


def parse_skill_md(data: bytes, *, folder: str | None = None) -> SkillMdReport:
    """Parse and validate a SKILL.md. `folder` is the name of its folder, if known. Never raises."""
    notes = _Notes()
    text = _decode(data, notes)
    skill = None if text is None else _parse(text, len(data), folder, notes)
    return SkillMdReport(None if notes.errors else skill, tuple(notes.errors), tuple(notes.warnings))


def rewrite_description(data: bytes, description: str) -> bytes:
    """Return the file with another description, and every other line as it is. Raises PackageError."""
    description = description.strip()
    if not description:
        raise _bad_description("the description is empty; say what the skill does and when to use it")
    if len(description) > DESCRIPTION_CHARACTERS:
        raise _bad_description(f"the description is over {DESCRIPTION_CHARACTERS} characters; make it shorter")
    if any(unicodedata.category(character) == "Cs" or character == "\0" for character in description):
        raise _bad_description("the description contains NUL or half of a surrogate pair")
    try:
        sections = split_front_matter(data.decode("utf-8"), FRONTMATTER_BYTES)
    except (UnicodeDecodeError, FrontMatterError) as error:
        raise _bad_description("SKILL.md has no readable front matter; upload a new package") from error
    lines = re.findall(r"[^\n]*\n", sections.yaml)
    start = next((i for i, line in enumerate(lines) if re.match(r"([\"']?)description\1[ \t]*:", line)), None)
    if start is None:
        raise _bad_description("SKILL.md has no line `description:` that could be changed; upload a new package")
    line_end = "\r\n" if lines[start].endswith("\r\n") else "\n"
    end = find_end_of_value(lines, start, 0, spaces=" \t")
    lines[start:end] = [f"description: {quote_scalar(description)}{line_end}"]
    changed = "".join(lines)
    _check_only_description_changed(sections.yaml, changed, description)
    return (sections.opening + changed + sections.rest).encode()


def _decode(data: bytes, notes: _Notes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        notes.add_error(FindingCode.ENCODING, f"SKILL.md is not UTF-8 (byte {error.start}); save it as UTF-8")
        return None
    if "\0" in text:
        notes.add_error(FindingCode.ENCODING, "SKILL.md contains NUL, as UTF-16 text does; save it as UTF-8")
        return None
    return text


def _parse(text: str, size_bytes: int, folder: str | None, notes: _Notes) -> SkillMd | None:
    fields = _parse_front_matter(text, size_bytes, notes)
    if fields is None:
        return None
    name = _read_name(fields.get("name"), folder, notes)
    description = _read_description(fields.get("description"), notes)
    written = fields.get("metadata")
    metadata = written.children if written and isinstance(written.value, dict) else {}
    if written and written.value is not None and not isinstance(written.value, dict):
        notes.add_warning(FindingCode.FIELD_IGNORED, "`metadata` is not a mapping and is ignored")
    for key in fields:
        if key not in _SPEC_FIELDS:
            notes.add_warning(
                FindingCode.UNKNOWN_FIELD, f"the format has no field {key[:64]!r}; put it under `metadata`"
            )
    limits, problems = parse_requested_limits(fields, metadata)
    for problem in problems:
        notes.add_warning(FindingCode.BAD_LIMIT, f"{problem}; the limit is ignored")
    network, problems = parse_requested_network(fields, metadata)
    for problem in problems:
        notes.add_warning(FindingCode.BAD_NETWORK_PLACE, f"{problem}; the place is ignored")
    compatibility = _read_text(fields, "compatibility", notes)
    if compatibility and len(compatibility) > _COMPATIBILITY_CHARACTERS:
        message = f"`compatibility` has {len(compatibility)} characters; the format allows {_COMPATIBILITY_CHARACTERS}"
        notes.add_warning(FindingCode.COMPATIBILITY_TOO_LONG, message)
    allowed_tools = fields.get("allowed-tools")
    if allowed_tools is not None and isinstance(allowed_tools.value, list):
        notes.add_warning(FindingCode.NOT_A_STRING, "`allowed-tools` is a list; the format wants one string")
    else:
        _read_text(fields, "allowed-tools", notes)
    version = _first_filled(metadata.get("version"), fields.get("version"))
    return SkillMd(
        name=name,
        description=description,
        version=((version.text or "").strip()[:_SHORT_CHARACTERS] or None) if version else None,
        tags=_read_tags(_first_filled(metadata.get("tags"), fields.get("tags"))),
        license=_read_text(fields, "license", notes),
        metadata={key: _metadata_text(key, node, notes) for key, node in metadata.items()},
        limits=limits,
        network=network,
    )


def _parse_front_matter(text: str, size_bytes: int, notes: _Notes) -> _Fields | None:
    try:
        sections = split_front_matter(text, FRONTMATTER_BYTES)
        if size_bytes > SKILL_MD_BYTES:
            notes.add_error(
                FindingCode.TOO_LARGE, f"SKILL.md is larger than {SKILL_MD_BYTES} bytes; move text to references/"
            )
            return None
        parsed = parse_skill_front_matter(sections.yaml)
    except FrontMatterError as error:
        too_long = isinstance(error, FrontMatterTooLongError)
        code = FindingCode.FRONTMATTER_TOO_LARGE if too_long else FindingCode.BAD_FRONTMATTER
        notes.add_error(code, f"the front matter {error}")
        return None
    _report_forgiven(parsed, notes)
    return parsed.fields


def _report_forgiven(parsed: SkillFrontMatter, notes: _Notes) -> None:
    for key in parsed.repaired:
        notes.add_warning(FindingCode.YAML_REPAIRED, f"the value of {key!r} is not valid YAML; put it into quotes")
    if "description" in parsed.cut:
        notes.add_warning(
            FindingCode.DESCRIPTION_CUT,
            "the description ends at ' #', where YAML begins a comment; put it into quotes to keep the rest",
        )
    for key in parsed.duplicates:
        if key in {"name", "description"}:
            notes.add_error(FindingCode.BAD_FRONTMATTER, f"{key!r} occurs twice; keep one")
        else:
            notes.add_warning(FindingCode.DUPLICATE_KEY, f"{key[:64]!r} occurs twice; the last one counts")


def _read_name(node: FrontMatterNode | None, folder: str | None, notes: _Notes) -> str:
    written = (node.text or "").strip() if node else ""
    name = unicodedata.normalize("NFKC", written)
    if not written:
        notes.add_error(FindingCode.BAD_NAME, "the front matter has no `name`, or it is not text")
    elif len(name) > NAME_CHARACTERS or not _NAME.fullmatch(name):
        rule = f"at most {NAME_CHARACTERS} of a-z and 0-9, with single hyphens between them"
        notes.add_error(FindingCode.BAD_NAME, f"the name {written[:80]!r} breaks the rule: {rule}")
    else:
        if name != written:
            notes.add_warning(FindingCode.NAME_NORMALISED, f"the name {written!r} is installed as {name!r}")
        if folder is not None and unicodedata.normalize("NFKC", folder) != name:
            message = f"the folder is {folder!r} and the name {name!r}; the name counts"
            notes.add_warning(FindingCode.NAME_MISMATCH, message)
    return name


def _read_description(node: FrontMatterNode | None, notes: _Notes) -> str:
    text = (node.text or "").strip() if node else ""
    if not text:
        is_structure = node is not None and node.text is None and node.value is not None
        problem = "is not text" if is_structure else "is missing or empty"
        message = f"`description` {problem}; say what the skill does and when to use it"
        notes.add_error(FindingCode.BAD_DESCRIPTION, message)
        return text
    if node and not isinstance(node.value, str):
        notes.add_warning(FindingCode.NOT_A_STRING, "`description` is not a string; put it into quotes")
    if len(text) > DESCRIPTION_HARD_CHARACTERS:
        notes.add_error(FindingCode.BAD_DESCRIPTION, f"`description` is over {DESCRIPTION_HARD_CHARACTERS} characters")
    elif len(text) > DESCRIPTION_CHARACTERS:
        message = f"`description` has {len(text)} characters; the format allows {DESCRIPTION_CHARACTERS}"
        notes.add_warning(FindingCode.DESCRIPTION_TOO_LONG, message)
    if find_hidden(text):
        message = "`description` contains invisible characters; look at it in an editor"
        notes.add_warning(FindingCode.HIDDEN_CHARACTERS, message)
    return text


def _metadata_text(key: str, node: FrontMatterNode, notes: _Notes) -> str:
    if not isinstance(node.value, str):
        notes.add_warning(FindingCode.NOT_A_STRING, f"`metadata.{key[:64]}` is not a string and is kept as text")
    if node.text is not None:
        return node.text
    return "" if node.value is None else json.dumps(node.value, ensure_ascii=False)


def _first_filled(*nodes: FrontMatterNode | None) -> FrontMatterNode | None:
    return next((node for node in nodes if node is not None and node.value not in (None, "")), None)


def _read_tags(node: FrontMatterNode | None) -> tuple[str, ...]:
    if node is None:
        return ()
    if isinstance(node.value, list):
        found = [str(item) for item in node.value if isinstance(item, str | int | float)]
    else:
        text = node.text or ""
        found = re.split(r"[,，、;；]", text) if re.search(r"[,，、;；]", text) else text.split()
    tags = (tag.strip().lstrip("#")[:_SHORT_CHARACTERS].strip() for tag in found)
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:_TAGS]


def _read_text(fields: _Fields, key: str, notes: _Notes) -> str | None:
    node = fields.get(key)
    if node is None or node.value is None:
        return None
    if node.text is None:
        notes.add_warning(FindingCode.FIELD_IGNORED, f"`{key}` is not text and is ignored")
        return None
    return node.text.strip() or None


def _bad_description(message: str) -> PackageError:
    return PackageError((finding(FindingCode.BAD_DESCRIPTION, message, "description"),))


def _check_only_description_changed(before: str, after: str, description: str) -> None:
    try:
        old, new = _parse_values(before), _parse_values(after)
    except FrontMatterError as error:
        raise _bad_description("the description cannot be changed in this SKILL.md; upload a new package") from error
    if new.pop("description", None) != description or old.pop("description", None) is None or old != new:
        raise _bad_description("the description cannot be changed alone in this SKILL.md; upload a new package")


def _parse_values(source: str) -> dict[str, JsonValue]:
    return {key: node.value for key, node in parse_skill_front_matter(source).fields.items()}
