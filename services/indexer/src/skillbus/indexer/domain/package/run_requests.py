"""Resources that a SKILL.md requests for its runs: limits and places of the network.

Each is read from the first of these that is present: the key `skillbus-limits` or `skillbus-network` of `metadata` as
text, which a strict reader of the format accepts; the key `limits` or `network` of `metadata`; the same key at the top.
A request for the network opens nothing: an operator approves places.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue, ValidationError

from skillbus.common.front_matter import FrontMatterNode
from skillbus.contracts.indexer.skill_record import SkillLimits
from skillbus.contracts.network import PLACES_MAX, normalize_place
from skillbus.contracts.validation import list_problems

LIMITS_KEY: Final = "skillbus-limits"
NETWORK_KEY: Final = "skillbus-network"
_KNOWN_LIMITS: Final = f"the limits are {', '.join(SkillLimits.model_fields)}"
_SHOWN_CHARACTERS: Final = 64
_Fields = Mapping[str, FrontMatterNode]


def parse_requested_limits(top: _Fields, metadata: _Fields) -> tuple[SkillLimits | None, tuple[str, ...]]:
    """Parse the requested limits. Return the valid ones and a message for each rejected one."""
    written = _find_request(LIMITS_KEY, "limits", top, metadata)
    if written is None:
        return None, ()
    value = written.value
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        return None, (f'the limits are not a mapping like {{"wall_s": 10, "memory_mib": 256}}: {_KNOWN_LIMITS}',)
    good, problems = dict[str, JsonValue](), list[str]()
    for name, limit in value.items():
        problem = _find_problem(name, limit)
        if problem is None:
            good[name] = limit
        else:
            problems.append(problem)
    return (SkillLimits.model_validate(good) if good else None), tuple(problems)


def parse_requested_network(top: _Fields, metadata: _Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parse the requested network places. Return the valid places and a message for each rejected one."""
    written = _find_request(NETWORK_KEY, "network", top, metadata)
    if written is None:
        return (), ()
    value = re.split(r"[\s,]+", written.value.strip()) if isinstance(written.value, str) else written.value
    if not isinstance(value, list):
        return (), ("the network is not a list of places like api.example.org:443",)
    good, problems = dict[str, None](), list[str]()
    for place in value:
        if not isinstance(place, str):
            problems.append(f"{str(place)[:80]!a} is not a place: write it as text, like api.example.org:443")
            continue
        try:
            good[normalize_place(place)] = None
        except ValueError as error:
            problems.append(str(error))
    if len(good) > PLACES_MAX:
        problems.append(f"the skill requests {len(good)} places, of which the first {PLACES_MAX} count")
    return tuple(good)[:PLACES_MAX], tuple(problems)


def _find_request(key: str, name: str, top: _Fields, metadata: _Fields) -> FrontMatterNode | None:
    written = next((node for node in (metadata.get(key), metadata.get(name), top.get(name)) if node), None)
    return None if written is None or written.value is None else written


def _find_problem(name: str, limit: JsonValue) -> str | None:
    shown = name[:_SHOWN_CHARACTERS]
    if name not in SkillLimits.model_fields:
        return f"there is no limit {shown!r}; {_KNOWN_LIMITS}"
    if isinstance(limit, bool) or limit is None:
        return f"the limit {shown!r} is not a number"
    try:
        SkillLimits.model_validate({name: limit})
    except ValidationError as error:
        return f"the limit {shown!r}: {list_problems(error)[0].problem}"
    return None
