"""A knowledge item as Markdown: YAML front matter between two lines `---`, a blank line, and the content as it is.

    ---
    id: 01890000-0000-7000-8000-000000000000
    type: business_rule
    title: 直播电商接口需要 game-id
    scope: /api/live/*
    tags:
    - auth
    ---

    所有 /api/live 下的接口都必须带 header `game-id`。

The front matter is flat, and its values are read as text: `lang: no` is Norwegian. The content is neither parsed nor
rendered here.
"""

import re
from typing import Final

from pydantic import JsonValue

from skillbus.common.front_matter import (
    FrontMatterError,
    FrontMatterNode,
    format_front_matter,
    parse_front_matter,
    split_front_matter,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem

MEDIA_TYPE: Final = "text/markdown"
FRONT_MATTER_CHARACTERS: Final = 100_000
"""Longest front matter. Enough for every field at its limit, with each character written as an escape of ten."""
_FIELDS: Final = ("id", *(name for name in KnowledgeDraft.model_fields if name != "content"))
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [])
_BLANK_LINE: Final = re.compile(r"\r?\n")


def format_markdown(item: KnowledgeItem) -> str:
    """Format an item as Markdown. Empty fields are left out."""
    values = item.model_dump(mode="json", include=set(_FIELDS))
    fields = {name: values[name] for name in _FIELDS if values[name] not in _EMPTY}
    return f"---\n{format_front_matter(fields)}---\n\n{item.content}\n"


def parse_markdown(text: str) -> dict[str, JsonValue]:
    """Parse Markdown into the fields that `put_knowledge` takes and validates. Unknown fields are ignored.

    Raises:
        RequestError: `invalid_request`: there is no front matter, or it is not flat YAML.
    """
    try:
        sections = split_front_matter(text, FRONT_MATTER_CHARACTERS)
        parsed = parse_front_matter(sections.yaml)
    except FrontMatterError as error:
        raise _refuse(str(error)) from error
    if parsed.duplicates:
        raise _refuse(f"has {parsed.duplicates[0][:50]!r} twice: keep one")
    fields = {name: value for name, node in parsed.fields.items() if (value := _convert_value(node)) is not None}
    content = sections.rest.partition("\n")[2]
    if blank := _BLANK_LINE.match(content):
        content = content[blank.end() :]
    line_end = "\r\n" if sections.opening.endswith("\r\n") else "\n"
    return {**{name: fields[name] for name in _FIELDS if name in fields}, "content": content.removesuffix(line_end)}


def _convert_value(node: FrontMatterNode) -> JsonValue:
    """Return a scalar as it is written, or a list of such scalars."""
    if node.children or any(item.children or item.items for item in node.items) or node.value == {}:
        raise _refuse("is not flat: write fields as `title: …`, and lists of words only")
    return [item.text for item in node.items] if isinstance(node.value, list) else node.text


def _refuse(problem: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, f"The front matter {problem}.")
