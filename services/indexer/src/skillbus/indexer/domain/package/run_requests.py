"""The limits that a SKILL.md asks for.

The first of these that is there counts: the key `skillbus-limits` of `metadata`, a JSON object as text, which is what a
strict reader of the format takes; the mapping `limits` of `metadata`; the mapping `limits` at the top.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.network import PLACES_MAX, normalize_place
from skillbus.indexer.domain.package.frontmatter import Node

LIMITS_KEY: Final = "skillbus-limits"
_LIMITS_NAME: Final = "limits"
_KNOWN: Final = tuple(SkillLimits.model_fields)
_SHOWN_CHARACTERS: Final = 64
NETWORK_KEY: Final = "skillbus-network"
_NETWORK_NAME: Final = "network"


def wished_limits(
    fields: Mapping[str, Node], metadata: Mapping[str, Node]
) -> tuple[SkillLimits | None, tuple[str, ...]]:
    """What is asked for, and what is wrong with the rest, which is left out; `fields` are those at the top."""
    written = next(
        (node for node in (metadata.get(LIMITS_KEY), metadata.get(_LIMITS_NAME), fields.get(_LIMITS_NAME)) if node),
        None,
    )
    if written is None or written.value is None:
        return None, ()
    value = _value(written)
    if not isinstance(value, dict):
        return None, (f'the limits are not a mapping like {{"wall_s": 10, "memory_mib": 256}}: {_names()}',)
    good, problems = dict[str, JsonValue](), list[str]()
    for name, limit in value.items():
        problem = _problem(name, limit)
        if problem is None:
            good[name] = limit
        else:
            problems.append(problem)
    return (SkillLimits.model_validate(good) if good else None), tuple(problems)


def _value(node: Node) -> JsonValue:
    if not isinstance(node.value, str):
        return node.value
    try:
        parsed: JsonValue = json.loads(node.value)
    except (ValueError, RecursionError):
        return None
    return parsed


def _problem(name: str, limit: JsonValue) -> str | None:
    shown = name[:_SHOWN_CHARACTERS]
    if name not in _KNOWN:
        return f"there is no limit {shown!r}; {_names()}"
    if isinstance(limit, bool) or limit is None:
        return f"the limit {shown!r} is not a number"
    try:
        SkillLimits.model_validate({name: limit})
    except ValidationError as error:
        return f"the limit {shown!r}: {error.errors(include_url=False, include_input=False)[0]['msg']}"
    return None


def _names() -> str:
    return f"the limits are {', '.join(_KNOWN)}"


def wished_network(fields: Mapping[str, Node], metadata: Mapping[str, Node]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is asked for, and what is wrong with the rest, which is left out; `fields` are those at the top."""
    written = next(
        (node for node in (metadata.get(NETWORK_KEY), metadata.get(_NETWORK_NAME), fields.get(_NETWORK_NAME)) if node),
        None,
    )
    if written is None or written.value is None:
        return (), ()
    value = re.split(r"[\s,]+", written.value.strip()) if isinstance(written.value, str) else written.value
    if not isinstance(value, list):
        return (), ("the network is not a list of places like api.example.org:443",)
    good, problems = dict[str, None](), list[str]()
    for place in value:
        try:
            good[_normal(place)] = None
        except ValueError as error:
            problems.append(str(error))
    if len(good) > PLACES_MAX:
        problems.append(f"the skill asks for {len(good)} places, at most {PLACES_MAX} count")
    return tuple(good)[:PLACES_MAX], tuple(problems)


def _normal(place: JsonValue) -> str:
    if not isinstance(place, str):
        raise ValueError(f"{str(place)[:80]!a} is no place: write it as text, like api.example.org:443")  # noqa: TRY004
    return normalize_place(place)
