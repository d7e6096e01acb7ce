"""The places of the network that a SKILL.md asks for.

The first of these that is there counts: the key `skillbus-network` of `metadata`, places separated by spaces or commas,
which is what a strict reader of the format takes; the list `network` of `metadata`; the list `network` at the top.
Asking opens nothing: an operator approves.
"""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.contracts.network import PLACES_MAX, normal_place
from skillbus.indexer.domain.frontmatter import Node

KEY: Final = "skillbus-network"
_NAME: Final = "network"


def wished_network(fields: Mapping[str, Node], metadata: Mapping[str, Node]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is asked for, and what is wrong with the rest, which is left out; `fields` are those at the top."""
    written = next((node for node in (metadata.get(KEY), metadata.get(_NAME), fields.get(_NAME)) if node), None)
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
    return normal_place(place)
