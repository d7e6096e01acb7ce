"""SKILL.md: what the Agent Skills format asks for, reported strictly and installed leniently.

An error keeps a skill out; a warning is told and remembered. Format: agentskills.io/specification.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from skillbus.contracts.indexer.skill_record import SkillFinding, SkillLimits
from skillbus.indexer.domain.package import frontmatter
from skillbus.indexer.domain.package.findings import BadDescriptionError, FindingCode, finding
from skillbus.indexer.domain.package.frontmatter import Frontmatter, Node
from skillbus.indexer.domain.package.run_requests import wished_limits, wished_network

SKILL_MD_BYTES = 1024 * 1024


NAME_CHARACTERS = 64


DESCRIPTION_CHARACTERS = 1024


_COMPATIBILITY_CHARACTERS = 500


DESCRIPTION_HARD_CHARACTERS = 16 * 1024
"""Over the format's 1,024 a description is kept with a warning (a public skill has one), up to this."""


_TAGS = 64


_MAX_WARNINGS = 50


_SHORT_CHARACTERS = 64
"""Longest tag and version."""


_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


_SPEC_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})


@dataclass(frozen=True, slots=True)
class SkillMd:
    """What a SKILL.md says. `metadata` holds every key as text, those of skillbus included."""

    name: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    license: str | None
    compatibility: str | None
    allowed_tools: str | None
    metadata: Mapping[str, str]
    body: str
    limits: SkillLimits | None = None
    network: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillMdReport:
    """The strict report. `skill` is there exactly if there are no errors."""

    skill: SkillMd | None
    errors: tuple[SkillFinding, ...] = ()
    warnings: tuple[SkillFinding, ...] = ()


class _Notes:
    """Findings while a file is read."""

    def __init__(self) -> None:
        self.errors: list[SkillFinding] = []
        self.warnings: list[SkillFinding] = []

    def error(self, code: FindingCode, message: str, where: str = "SKILL.md") -> None:
        self.errors.append(finding(code, message, where))

    def warn(self, code: FindingCode, message: str, where: str = "SKILL.md") -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(finding(code, message, where))


def parse_skill_md(data: bytes, *, folder: str | None = None) -> SkillMdReport:
    """Read a SKILL.md. `folder` is the name of the folder it lies in, if that is known; it never raises."""
    notes = _Notes()
    text = _decoded(data, notes)
    skill = None if text is None else _read(text, len(data), folder, notes)
    return SkillMdReport(None if notes.errors else skill, tuple(notes.errors), tuple(notes.warnings))


def rewrite_description(data: bytes, description: str) -> bytes:
    """The same file with another description; every other line stays as it is, byte for byte.

    Raises:
        BadDescriptionError: the description is empty or over 1,024 characters, or the file has no line for it.
    """
    description = description.strip()
    _check_new_description(description)
    try:
        sections = frontmatter.split(data.decode("utf-8"))
    except (UnicodeDecodeError, frontmatter.FrontmatterError) as error:
        raise _bad_description(f"SKILL.md cannot be changed ({error}); upload a new package") from error
    lines = re.findall(r"[^\n]*\n", sections.yaml)
    start = next((i for i, line in enumerate(lines) if re.match(r"([\"']?)description\1[ \t]*:", line)), None)
    if start is None:
        raise _bad_description("SKILL.md has no line `description:` that could be changed; upload a new package")
    line_end = "\r\n" if lines[start].endswith("\r\n") else "\n"
    lines[start : _end_of_entry(lines, start)] = [f"description: {frontmatter.quoted(description)}{line_end}"]
    changed = "".join(lines)
    _check_only_description_changed(sections.yaml, changed, description)
    return (sections.opening + changed + sections.rest).encode()


def _decoded(data: bytes, notes: _Notes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        notes.error(FindingCode.ENCODING, f"SKILL.md is not UTF-8 (byte {error.start}); save it as UTF-8")
        return None
    if "\0" in text:
        notes.error(FindingCode.ENCODING, "SKILL.md holds NUL, as UTF-16 text does; save it as UTF-8")
        return None
    return text


def _read(text: str, size_bytes: int, folder: str | None, notes: _Notes) -> SkillMd | None:
    parsed = _frontmatter(text, size_bytes, notes)
    if parsed is None:
        return None
    sections, fields = parsed
    name = _name(fields.get("name"), folder, notes)
    description = _description(fields.get("description"), notes)
    metadata_nodes = _metadata_nodes(fields.get("metadata"), notes)
    for key in fields:
        if key not in _SPEC_FIELDS:
            notes.warn(FindingCode.UNKNOWN_FIELD, f"the format has no field {key[:64]!r}; put it under `metadata`")
    limits, problems = wished_limits(fields, metadata_nodes)
    for problem in problems:
        notes.warn(FindingCode.BAD_LIMIT, f"{problem}. It is left out")
    network, problems = wished_network(fields, metadata_nodes)
    for problem in problems:
        notes.warn(FindingCode.BAD_NETWORK_PLACE, f"{problem}. It is left out")
    return SkillMd(
        name=name,
        description=description,
        version=_short(_first(metadata_nodes.get("version"), fields.get("version"))),
        tags=_tags(_first(metadata_nodes.get("tags"), fields.get("tags"))),
        license=_text(fields, "license", notes),
        compatibility=_compatibility(fields, notes),
        allowed_tools=_allowed_tools(fields.get("allowed-tools"), notes),
        metadata={key: _metadata_text(key, node, notes) for key, node in metadata_nodes.items()},
        body=sections.body,
        limits=limits,
        network=network,
    )


def _frontmatter(text: str, size_bytes: int, notes: _Notes) -> tuple[frontmatter.Sections, Mapping[str, Node]] | None:
    try:
        sections = frontmatter.split(text)
        if size_bytes > SKILL_MD_BYTES:
            notes.error(
                FindingCode.TOO_LARGE, f"SKILL.md is larger than {SKILL_MD_BYTES} bytes; move text to references/"
            )
            return None
        parsed = frontmatter.parse(sections.yaml)
    except frontmatter.TooLongError as error:
        notes.error(FindingCode.FRONTMATTER_TOO_LARGE, str(error))
        return None
    except frontmatter.FrontmatterError as error:
        notes.error(FindingCode.BAD_FRONTMATTER, str(error))
        return None
    _note_forgiven(parsed, notes)
    return sections, parsed.fields


def _note_forgiven(parsed: Frontmatter, notes: _Notes) -> None:
    for key in parsed.repaired:
        notes.warn(FindingCode.YAML_REPAIRED, f"the value of {key!r} is not valid YAML; put it into quotes")
    if "description" in parsed.cut:
        notes.warn(
            FindingCode.DESCRIPTION_CUT,
            "the description ends at ' #', where YAML begins a comment; put it into quotes to keep the rest",
        )
    for key in parsed.duplicates:
        if key in {"name", "description"}:
            notes.error(FindingCode.BAD_FRONTMATTER, f"{key!r} stands twice; keep one")
        else:
            notes.warn(FindingCode.DUPLICATE_KEY, f"{key[:64]!r} stands twice; the last one counts")


def _name(node: Node | None, folder: str | None, notes: _Notes) -> str:
    written = (node.text or "").strip() if node else ""
    name = unicodedata.normalize("NFKC", written)
    if not written:
        notes.error(FindingCode.BAD_NAME, "the frontmatter has no `name`, or it is not text")
    elif len(name) > NAME_CHARACTERS or not _NAME.fullmatch(name):
        rule = f"at most {NAME_CHARACTERS} of a-z and 0-9, with single hyphens between them"
        notes.error(FindingCode.BAD_NAME, f"the name {written[:80]!r} breaks the rule: {rule}")
    else:
        if name != written:
            notes.warn(FindingCode.NAME_NORMALISED, f"the name {written!r} is installed as {name!r}")
        if folder is not None and unicodedata.normalize("NFKC", folder) != name:
            notes.warn(FindingCode.NAME_MISMATCH, f"the folder is {folder!r}, the name {name!r}; the name counts")
    return name


def _description(node: Node | None, notes: _Notes) -> str:
    text = (node.text or "").strip() if node else ""
    if not text:
        is_structure = node is not None and node.text is None and node.value is not None
        why = "is not text" if is_structure else "is missing or empty"
        notes.error(FindingCode.BAD_DESCRIPTION, f"`description` {why}; say what the skill does and when to use it")
        return text
    if node and not isinstance(node.value, str):
        notes.warn(FindingCode.NOT_A_STRING, "`description` is not a string; put it into quotes")
    if len(text) > DESCRIPTION_HARD_CHARACTERS:
        notes.error(FindingCode.BAD_DESCRIPTION, f"`description` is over {DESCRIPTION_HARD_CHARACTERS} characters")
    elif len(text) > DESCRIPTION_CHARACTERS:
        notes.warn(
            FindingCode.DESCRIPTION_TOO_LONG,
            f"`description` has {len(text)} characters; the format allows {DESCRIPTION_CHARACTERS}",
        )
    if any(_is_hidden(character) for character in text):
        notes.warn(FindingCode.HIDDEN_CHARACTERS, "`description` holds invisible characters; look at it in an editor")
    return text


def _is_hidden(character: str) -> bool:
    # Bidi controls and tag characters hide text from people and not from models; joiners belong to emoji and scripts.
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs"} and character not in "\n\r\t\u200c\u200d"


def _metadata_nodes(node: Node | None, notes: _Notes) -> Mapping[str, Node]:
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        notes.warn(FindingCode.FIELD_IGNORED, "`metadata` is not a mapping and is left out")
        return {}
    return node.children


def _metadata_text(key: str, node: Node, notes: _Notes) -> str:
    if not isinstance(node.value, str):
        notes.warn(FindingCode.NOT_A_STRING, f"`metadata.{key[:64]}` is not a string and is kept as text")
    if node.text is not None:
        return node.text
    return "" if node.value is None else json.dumps(node.value, ensure_ascii=False)


def _first(*nodes: Node | None) -> Node | None:
    return next((node for node in nodes if node is not None and node.value not in (None, "")), None)


def _short(node: Node | None) -> str | None:
    text = (node.text or "").strip() if node else ""
    return text[:_SHORT_CHARACTERS] or None


def _tags(node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    if isinstance(node.value, list):
        found = [str(item) for item in node.value if isinstance(item, str | int | float)]
    else:
        text = node.text or ""
        found = re.split(r"[,，、;；]", text) if re.search(r"[,，、;；]", text) else text.split()
    tags = (tag.strip().lstrip("#")[:_SHORT_CHARACTERS].strip() for tag in found)
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:_TAGS]


def _text(fields: Mapping[str, Node], key: str, notes: _Notes) -> str | None:
    node = fields.get(key)
    if node is None or node.value is None:
        return None
    if node.text is None:
        notes.warn(FindingCode.FIELD_IGNORED, f"`{key}` is not text and is left out")
        return None
    return node.text.strip() or None


def _compatibility(fields: Mapping[str, Node], notes: _Notes) -> str | None:
    text = _text(fields, "compatibility", notes)
    if text and len(text) > _COMPATIBILITY_CHARACTERS:
        allowed = f"the format allows {_COMPATIBILITY_CHARACTERS}"
        notes.warn(FindingCode.COMPATIBILITY_TOO_LONG, f"`compatibility` has {len(text)} characters; {allowed}")
    return text


def _allowed_tools(node: Node | None, notes: _Notes) -> str | None:
    if node is None or not isinstance(node.value, list):
        return _text({} if node is None else {"allowed-tools": node}, "allowed-tools", notes)
    notes.warn(FindingCode.NOT_A_STRING, "`allowed-tools` is a list; the format wants one string")
    return " ".join(str(item) for item in node.value) or None


def _bad_description(message: str) -> BadDescriptionError:
    return BadDescriptionError((finding(FindingCode.BAD_DESCRIPTION, message, "description"),))


def _check_new_description(description: str) -> None:
    if not description:
        raise _bad_description("the description is empty; say what the skill does and when to use it")
    if len(description) > DESCRIPTION_CHARACTERS:
        raise _bad_description(f"the description is over {DESCRIPTION_CHARACTERS} characters; make it shorter")
    if any(unicodedata.category(character) == "Cs" or character == "\0" for character in description):
        raise _bad_description("the description holds NUL or half a character")


def _end_of_entry(lines: list[str], start: int) -> int:
    """The line after a top-level entry: it goes on over indented lines, and blank ones between them."""
    end = start + 1
    for index in range(start + 1, len(lines)):
        if lines[index].strip():
            if lines[index][0] not in " \t":
                break
            end = index + 1
    return end


def _check_only_description_changed(before: str, after: str, description: str) -> None:
    try:
        old, new = _values(before), _values(after)
    except frontmatter.FrontmatterError as error:
        raise _bad_description("the description cannot be changed in this SKILL.md; upload a new package") from error
    if new.pop("description", None) != description or old.pop("description", None) is None or old != new:
        raise _bad_description("the description cannot be changed alone in this SKILL.md; upload a new package")


def _values(source: str) -> dict[str, JsonValue]:
    return {key: node.value for key, node in frontmatter.parse(source).fields.items()}
