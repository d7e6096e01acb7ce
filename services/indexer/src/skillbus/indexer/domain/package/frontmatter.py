"""The YAML between the `---` fences of a SKILL.md, read without trusting it.

Aliases, tags and deep nesting are refused, so that nothing grows while it is read. Scalars keep their text: `version:
1.10` is "1.10", not 1.1.

```text
FrontmatterError          base; the YAML cannot be used
├── NoFrontmatterError    no fences
└── TooLongError          longer than FRONTMATTER_BYTES
```
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from pydantic import JsonValue

FRONTMATTER_BYTES = 64 * 1024
"""The longest of 1,372 public skills is under 6 KiB."""


_NOT_PLAIN = frozenset("\"'|>[{#&*!") | {""}
"""First characters of values that are quoted, blocks, collections or nothing: a ` #` in them is looked at by YAML."""


_MAX_DEPTH = 16


_CORE = "tag:yaml.org,2002:"


_TAGS = frozenset(
    _CORE + tag for tag in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)


_ENTRY = re.compile(r"^(?P<indent> *)(?P<key>[\w.-]+)[ \t]*:[ \t]+(?P<value>\S.*)$")


_BLOCK = re.compile(r"^[|>][-+0-9]*([ \t]+#.*)?$")


class FrontmatterError(Exception):
    """The frontmatter cannot be used; the message says why."""


class NoFrontmatterError(FrontmatterError):
    """The file does not begin with a fenced block."""


class TooLongError(FrontmatterError):
    """The fenced block is longer than `FRONTMATTER_BYTES`."""


@dataclass(frozen=True, slots=True)
class Sections:
    """A SKILL.md cut at its fences; the three joined are the file, byte order mark and line ends included."""

    opening: str
    yaml: str
    rest: str
    """From the closing fence on."""

    @property
    def body(self) -> str:
        """What follows the closing fence."""
        return self.rest.partition("\n")[2].strip()


@dataclass(frozen=True, slots=True)
class Node:
    """A value: `text` as it is written if it is a scalar and not null, `children` if it is a mapping."""

    value: JsonValue
    text: str | None = None
    children: Mapping[str, "Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The fields in their order, and what had to be forgiven."""

    fields: Mapping[str, Node]
    repaired: tuple[str, ...] = ()
    """Keys whose value was put into quotes."""
    duplicates: tuple[str, ...] = ()
    """Keys that stand twice; the last one counts."""
    cut: tuple[str, ...] = ()
    """Keys whose value ends at a ` #`, where YAML begins a comment."""


def split(text: str) -> Sections:
    """Cut a SKILL.md at its fences.

    Raises:
        NoFrontmatterError, TooLongError: there is no closed block at the top, or it is too long.
    """
    opening = re.match(r"\ufeff?(?:[ \t]*\r?\n)*---[ \t]*\r?\n", text)
    if not opening:
        raise NoFrontmatterError(
            "SKILL.md does not begin with a line `---`; put name and description between two of them"
        )
    # Searched within the limit only, so that the size of the rest costs nothing.
    window = text[opening.end() : opening.end() + FRONTMATTER_BYTES + 8]
    closing = re.search(r"^---[ \t]*\r?$", window, re.MULTILINE)
    is_cut = len(window) > FRONTMATTER_BYTES
    if (not closing and is_cut) or (closing and len(window[: closing.start()].encode()) > FRONTMATTER_BYTES):
        raise TooLongError(
            f"the frontmatter is longer than {FRONTMATTER_BYTES} bytes; move text below the second `---`"
        )
    if not closing:
        raise NoFrontmatterError("the frontmatter is not closed; end it with a line `---`")
    end = opening.end() + closing.start()
    return Sections(text[: opening.end()], text[opening.end() : end], text[end:])


def parse(source: str) -> Frontmatter:
    """The fields of a frontmatter. Values that YAML cannot read for an unquoted colon and the like are put into quotes.

    Raises:
        FrontmatterError: it is no mapping, or not even repair makes it YAML.
    """
    try:
        return _parse(source, ())
    except (yaml.scanner.ScannerError, yaml.parser.ParserError) as error:
        repaired, keys = _repair(source)
        if not keys:
            raise FrontmatterError(f"the frontmatter is not valid YAML: {_reason(error)}") from error
        try:
            return _parse(repaired, keys)
        except yaml.YAMLError as again:
            raise FrontmatterError(f"the frontmatter is not valid YAML: {_reason(error)}") from again
    except yaml.YAMLError as error:
        raise FrontmatterError(f"the frontmatter is not usable YAML: {_reason(error)}") from error


def _cut_by_comments(source: str) -> tuple[str, ...]:
    """Top-level keys with an unquoted value on their line, and a comment behind it."""
    cut = []
    for line in source.splitlines():
        key, colon, value = line.partition(":")
        plain = value.strip()
        if colon and key == key.strip() and plain[:1] not in _NOT_PLAIN and " #" in plain:
            cut.append(key)
    return tuple(cut)


def quoted(text: str) -> str:
    """A YAML double-quoted scalar on one line that means `text`."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(character if _is_printable(character) else _escaped(character) for character in plain)


def _is_printable(character: str) -> bool:
    return character.isprintable() or character == "\u3000"


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


class _Loader(yaml.SafeLoader):
    """Composes nodes only: without aliases, and not deep."""

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


def _compose(source: str) -> yaml.Node | None:
    loader = _Loader(source)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _parse(source: str, repaired: tuple[str, ...]) -> Frontmatter:
    root = _compose(source)
    if not isinstance(root, yaml.MappingNode):
        raise FrontmatterError("the frontmatter is not a mapping; write lines like `name: my-skill`")
    duplicates: list[str] = []
    return Frontmatter(_node(root, duplicates).children, repaired, tuple(duplicates), _cut_by_comments(source))


def _node(node: yaml.Node, duplicates: list[str]) -> Node:
    if node.tag not in _TAGS:
        raise yaml.constructor.ConstructorError(None, None, f"the tag {node.tag!r} is not allowed", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        children: dict[str, Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not plain text", key.start_mark)
            if key.value in children:
                duplicates.append(key.value)
            children[key.value] = _node(value, duplicates)
        return Node({key: child.value for key, child in children.items()}, children=children)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, duplicates).value for item in node.value])
    text = str(node.value)
    kind = node.tag.removeprefix(_CORE)
    return Node(None) if kind == "null" else Node(_scalar(kind, text), text)


def _scalar(kind: str, text: str) -> JsonValue:
    """A scalar's value in JSON; what JSON cannot hold (dates, infinity, endless digits) stays text."""
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


def _reason(error: yaml.YAMLError) -> str:
    """PyYAML's problem and its line in the file, without its picture of the source."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 2}" if mark else ""
        return f"{error.problem or error.context}{where}"
    return "it holds characters that are not allowed" if isinstance(error, yaml.reader.ReaderError) else str(error)


def _repair(source: str) -> tuple[str, tuple[str, ...]]:
    """The source with values in quotes where a line is not YAML by itself, and the keys of those."""
    lines, output, keys = source.splitlines(), list[str](), list[str]()
    position = 0
    while position < len(lines):
        entry = _ENTRY.match(lines[position])
        end = _end_of_value(lines, position, len(entry["indent"])) if entry else position + 1
        block = lines[position:end]
        position = end
        if entry and _needs_quotes(entry["value"], block):
            value = " ".join([entry["value"].rstrip(" \t"), *(line.strip() for line in block[1:] if line.strip())])
            block = [f"{entry['indent']}{entry['key']}: {quoted(value)}"]
            keys.append(entry["key"])
        output += block
    return "\n".join(output) + "\n", tuple(keys)


def _end_of_value(lines: list[str], start: int, indent: int) -> int:
    """The line after a value: it goes on over lines that are indented deeper, and blank ones between them."""
    end = start + 1
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        if len(line) - len(line.lstrip(" ")) <= indent:
            break
        end = index + 1
    return end


def _needs_quotes(value: str, block: list[str]) -> bool:
    if value[0] in "\"'" or _BLOCK.match(value.rstrip(" \t")):
        return False
    text = "\n".join(block)
    if value[0] in "[{" and any(text.count(left) != text.count(right) for left, right in ("[]", "{}")):
        return False
    try:
        _compose("\n".join(line.removeprefix(" " * (len(block[0]) - len(block[0].lstrip(" ")))) for line in block))
    except (yaml.scanner.ScannerError, yaml.parser.ParserError):
        return True
    except yaml.YAMLError:
        return False
    return False
