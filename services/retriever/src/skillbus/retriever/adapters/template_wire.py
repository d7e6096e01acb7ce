"""What passes between the retriever and the process that runs a caller's template: JSON in length-prefixed frames.

    to it                                                       from it
                                                                {}                     it listens, behind its limits
    {"template", "query", "scope"}                              {} or {"error"}
    {"items", "groups", "over_budget", "alike"}                 {"text"}, {"over": true} or {"error"}

`items` are those that were not sent before; `groups` name all that were sent by their places.
"""

import json
import struct
from typing import Final, TypedDict

LENGTH: Final = struct.Struct("<I")
OUTPUT_CHARACTERS: Final = 1_000_000
"""Of a text: more than any reply carries."""
FRAME_BYTES: Final = 8 * OUTPUT_CHARACTERS
"""Of what comes from the process."""


class Opening(TypedDict):
    """A template, and what is the same in all that it writes."""

    template: str
    query: str
    scope: str


class Writing(TypedDict):
    """A text to write."""

    items: list[dict[str, object]]
    """Each as a `ContextItem`."""
    groups: list[tuple[str, list[int]]]
    over_budget: int
    alike: int


class Answer(TypedDict, total=False):
    """What became of it."""

    text: str
    over: bool
    error: str


def framed(value: object) -> bytes:
    body = json.dumps(value, ensure_ascii=False).encode()
    return LENGTH.pack(len(body)) + body
