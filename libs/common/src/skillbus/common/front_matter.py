"""YAML front matter of Markdown files from strangers: SKILL.md and knowledge items.

Aliases, tags of applications and deep nesting are refused, so that a small file cannot grow while it is read. Scalars
keep their text: `version: 1.10` is "1.10", not 1.1.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml
from pydantic import JsonValue

_MAX_DEPTH: Final = 16
_OPENING: Final = re.compile(r"\ufeff?(?:[ \t]*\r?\n)*---[ \t]*\r?\n")
_CLOSING: Final = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_CORE: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(
    _CORE + tag for tag in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)


class FrontMatterError(Exception):
    """Base of the errors: the front matter cannot be used. The message says what to change."""


class FrontMatterMissingError(FrontMatterError):
    """The text does not begin with a closed block between two lines `---`."""


class FrontMatterTooLongError(FrontMatterError):
    """The block is longer than the limit."""


class FrontMatterSyntaxError(FrontMatterError):
    """The block is not YAML."""


@dataclass(frozen=True, slots=True)
class FrontMatterSections:
    """A text cut at its fences. The three parts joined are the text, byte order mark and line ends included."""

    opening: str
    yaml: str
    rest: str
    """Everything from the closing fence on."""


@dataclass(frozen=True, slots=True)
class FrontMatterNode:
    """A value of the front matter."""

    value: JsonValue
    text: str | None = None
    """The scalar as it is written; None for null, lists and mappings."""
    items: tuple["FrontMatterNode", ...] = ()
    children: Mapping[str, "FrontMatterNode"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields in their order, and the keys that occur twice. The last value of such a key counts."""

    fields: Mapping[str, FrontMatterNode]
    duplicates: tuple[str, ...] = ()


def split_front_matter(text: str, limit_bytes: int) -> FrontMatterSections:
    """Cut a text at the fences of its front matter.

    Raises:
        FrontMatterMissingError, FrontMatterTooLongError: There is no closed block at the top, or it is too long.
    """
    opening = _OPENING.match(text)
    if not opening:
        raise FrontMatterMissingError("is missing: begin the file with a line `---`, fields, and another line `---`")
    # The search stays within the limit, so that the size of the rest costs nothing.
    window = text[opening.end() : opening.end() + limit_bytes + 8]
    closing = _CLOSING.search(window)
    if len(window[: closing.start() if closing else None].encode()) > limit_bytes:
        raise FrontMatterTooLongError(f"is longer than {limit_bytes} bytes: move text below the second line `---`")
    if not closing:
        raise FrontMatterMissingError("is not closed: end it with a line `---`")
    end = opening.end() + closing.start()
    return FrontMatterSections(text[: opening.end()], text[opening.end() : end], text[end:])


def parse_front_matter(source: str) -> FrontMatter:
    """Parse the YAML between the fences.

    Raises:
        FrontMatterSyntaxError: It is not YAML.
        FrontMatterError: It is not a mapping, or uses a feature that is refused.
    """
    try:
        root = _Loader(source).get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise FrontMatterError("is not a mapping: write lines like `title: text`")
        duplicates: list[str] = []
        return FrontMatter(_read_node(root, duplicates).children, tuple(duplicates))
    except (yaml.scanner.ScannerError, yaml.parser.ParserError) as error:
        raise FrontMatterSyntaxError(f"is not valid YAML: {_describe(error)}") from error
    except yaml.YAMLError as error:
        raise FrontMatterError(f"is not usable YAML: {_describe(error)}") from error


def format_front_matter(fields: Mapping[str, JsonValue]) -> str:
    """Format fields as YAML, one a line. Text with characters that editors hide or change is written with escapes."""
    return yaml.dump(
        dict(fields), Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=False, width=math.inf
    )


def quote_scalar(text: str) -> str:
    """Return a YAML double-quoted scalar on one line that means `text`."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() or character == "\u3000" else _escape(character) for character in plain
    )


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


class _Dumper(yaml.SafeDumper):
    """Writes text with hidden characters in double quotes."""


def _represent_text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_CORE}str", value, style=None if value.isprintable() else '"')


_Dumper.add_representer(str, _represent_text)


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases and to a bounded depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed")
        if self.depth >= _MAX_DEPTH:
            raise yaml.constructor.ConstructorError(None, None, f"it is nested deeper than {_MAX_DEPTH}")
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[arg-type]  # stub wants int
        self.depth -= 1
        return node


def _read_node(node: yaml.Node, duplicates: list[str]) -> FrontMatterNode:
    if node.tag not in _TAGS:
        raise yaml.constructor.ConstructorError(None, None, f"the tag {node.tag!r} is not allowed", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        children: dict[str, FrontMatterNode] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not plain text", key.start_mark)
            if key.value in children:
                duplicates.append(key.value)
            children[key.value] = _read_node(value, duplicates)
        return FrontMatterNode({key: child.value for key, child in children.items()}, children=children)
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_read_node(item, duplicates) for item in node.value)
        return FrontMatterNode([item.value for item in items], items=items)
    text, kind = str(node.value), node.tag.removeprefix(_CORE)
    return FrontMatterNode(None) if kind == "null" else FrontMatterNode(_read_scalar(kind, text), text)


def _read_scalar(kind: str, text: str) -> JsonValue:
    """Return the JSON value of a scalar. Dates, infinity and very long numbers, which JSON cannot hold, stay text."""
    try:
        if kind == "bool":
            return text.lower() in {"true", "yes", "on"}
        if kind == "int" and len(text) <= 18:
            return int(text)
        if kind == "float" and math.isfinite(number := float(text)):
            return number
    except ValueError:
        return text
    return text


def _describe(error: yaml.YAMLError) -> str:
    """Return PyYAML's problem and its line in the file, without its excerpt of the source."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f"{error.problem or error.context}{f' in line {mark.line + 2}' if mark else ''}"
    return "it holds characters that are not allowed" if isinstance(error, yaml.reader.ReaderError) else str(error)
