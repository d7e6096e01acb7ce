"""Values as text: JSON for snapshots, and YAML, of which only what an AsyncAPI document needs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML 1.1 readers take for something else than text."""


def as_json(value: JsonValue) -> str:
    """JSON with sorted keys, as a diff reads best."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def as_yaml(value: JsonValue) -> str:
    """YAML in block style; texts are in double quotes as JSON writes them, which YAML reads the same."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_key(key)}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(key: str, value: JsonValue) -> Iterator[str]:
    lines = list(_lines(value))
    if isinstance(value, dict | list) and value:
        yield key
        yield from (f"  {line}" for line in lines)
    else:
        yield f"{key} {lines[0]}"


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN
    return key if plain else json.dumps(key, ensure_ascii=False)
