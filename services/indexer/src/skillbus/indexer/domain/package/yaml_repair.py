"""Front matter of a SKILL.md, read leniently: common slips of YAML are repaired and reported.

Of 1,372 public skills the longest front matter is under 6 KiB.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillbus.common.front_matter import (
    FrontMatterError,
    FrontMatterNode,
    FrontMatterSyntaxError,
    parse_front_matter,
    quote_scalar,
)

FRONTMATTER_BYTES: Final = 64 * 1024
_NOT_PLAIN: Final = frozenset("\"'|>[{#&*!") | {""}
"""First characters of values that are quoted, blocks, collections or empty: YAML itself handles a ` #` in them."""
_ENTRY: Final = re.compile(r"^(?P<indent> *)(?P<key>[\w.-]+)[ \t]*:[ \t]+(?P<value>\S.*)$")
_BLOCK: Final = re.compile(r"^[|>][-+0-9]*([ \t]+#.*)?$")


@dataclass(frozen=True, slots=True)
class SkillFrontMatter:
    """The fields in their order, and the slips that were forgiven."""

    fields: Mapping[str, FrontMatterNode]
    repaired: tuple[str, ...]
    """Keys with a value that was put into quotes."""
    duplicates: tuple[str, ...]
    """Keys that occur twice; the last one counts."""
    cut: tuple[str, ...]
    """Keys with a value that ends at a ` #`, where YAML begins a comment."""


def parse_skill_front_matter(source: str) -> SkillFrontMatter:
    """Parse front matter. Values that YAML refuses, for an unquoted colon and the like, are quoted.

    Raises FrontMatterError if it is not a mapping, or if the repair does not make it YAML.
    """
    keys: tuple[str, ...] = ()
    try:
        parsed = parse_front_matter(source)
    except FrontMatterSyntaxError as error:
        repaired, keys = _repair(source)
        try:
            parsed = parse_front_matter(repaired)
        except FrontMatterError:
            raise error from None
    return SkillFrontMatter(parsed.fields, keys, parsed.duplicates, _find_cut_keys(source))


def _find_cut_keys(source: str) -> tuple[str, ...]:
    """Find top-level keys with an unquoted value on their line and a comment after it."""
    cut = []
    for line in source.splitlines():
        key, colon, value = line.partition(":")
        plain = value.strip()
        if colon and key == key.strip() and plain[:1] not in _NOT_PLAIN and " #" in plain:
            cut.append(key)
    return tuple(cut)


def _repair(source: str) -> tuple[str, tuple[str, ...]]:
    """Quote the values of entries that are not YAML by themselves. Return the repaired source and their keys."""
    lines, output, keys = source.splitlines(), list[str](), list[str]()
    position = 0
    while position < len(lines):
        entry = _ENTRY.match(lines[position])
        end = find_end_of_value(lines, position, len(entry["indent"])) if entry else position + 1
        block = lines[position:end]
        position = end
        if entry and _needs_quotes(entry["value"], block, len(entry["indent"])):
            value = " ".join([entry["value"].rstrip(" \t"), *(line.strip() for line in block[1:] if line.strip())])
            block = [f"{entry['indent']}{entry['key']}: {quote_scalar(value)}"]
            keys.append(entry["key"])
        output += block
    return "\n".join(output) + "\n", tuple(keys)


def find_end_of_value(lines: list[str], start: int, indent: int, spaces: str = " ") -> int:
    """Return the line after a value. It continues over lines with a deeper indent and blank lines between them."""
    end = start + 1
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if line.strip():
            if len(line) - len(line.lstrip(spaces)) <= indent:
                break
            end = index + 1
    return end


def _needs_quotes(value: str, block: list[str], indent: int) -> bool:
    if value[0] in "\"'" or _BLOCK.match(value.rstrip(" \t")):
        return False
    text = "\n".join(block)
    if value[0] in "[{" and any(text.count(left) != text.count(right) for left, right in ("[]", "{}")):
        return False
    try:
        parse_front_matter("\n".join(line.removeprefix(" " * indent) for line in block))
    except FrontMatterSyntaxError:
        return True
    except FrontMatterError:
        return False
    return False
