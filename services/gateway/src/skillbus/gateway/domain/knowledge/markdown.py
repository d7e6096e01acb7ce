"""An item as Markdown: YAML front matter between two lines `---`, a blank line, and the content as it is.

    ---
    id: 01890000-0000-7000-8000-000000000000
    type: business_rule
    title: 直播电商接口需要 game-id
    scope: /api/live/*
    tags:
    - auth
    ---

    所有 /api/live 下的接口都必须带 header `game-id`。

The front matter is flat and read as text: no aliases, no tags of YAML, nothing nested. So nothing grows while it is
read, and `lang: no` is Norwegian. The content is neither read nor rendered here.
"""

import re
from collections.abc import Iterator
from math import inf
from typing import Final

import yaml
from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.knowledge import KnowledgeDraft, KnowledgeItem

MEDIA_TYPE: Final = "text/markdown"
FRONT_MATTER_CHARACTERS: Final = 100_000
"""Enough for every field at its longest, each character written as an escape of ten."""
_FIELDS: Final = ("id", *(name for name in KnowledgeDraft.model_fields if name != "content"))
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [])
_OPENING: Final = re.compile(r"\ufeff?---[ \t]*(\r?)\n")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_BLANK_LINE: Final = re.compile(r"\r?\n")
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})


class _Dumper(yaml.SafeDumper):
    """Writes text that editors would not show as it is, or would change, with escapes."""


def _as_text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


_Dumper.add_representer(str, _as_text)


def to_markdown(item: KnowledgeItem) -> str:
    """The item; what is empty is left away."""
    said = item.model_dump(mode="json", include=set(_FIELDS))
    fields = {name: said[name] for name in _FIELDS if said[name] not in _EMPTY}
    front = yaml.dump(fields, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=False, width=inf)
    return f"---\n{front}---\n\n{item.content}\n"


def from_markdown(text: str) -> dict[str, JsonValue]:
    """The item as `put_knowledge` takes it, which judges its fields: they are text here. Unknown ones are left away.

    Raises:
        RequestError: `invalid_request`: there is no front matter, or it is not flat YAML.
    """
    front, content = _cut(text)
    try:
        fields = dict(_flat(front))
    except yaml.YAMLError as error:
        raise _refused(f"is not YAML: {_reason(error)}") from error
    return {**{name: fields[name] for name in _FIELDS if name in fields}, "content": content}


def _cut(text: str) -> tuple[str, str]:
    """Front matter and content."""
    opening = _OPENING.match(text)
    if opening is None:
        raise _refused("is missing: begin with a line `---`, fields as `title: …`, and another line `---`")
    # Searched within the limit only, so that the size of the content costs nothing.
    closing = _CLOSING.search(text, opening.end(), opening.end() + FRONT_MATTER_CHARACTERS)
    if closing is None:
        raise _refused(f"does not end within {FRONT_MATTER_CHARACTERS} characters: end it with a line `---`")
    blank = _BLANK_LINE.match(text, closing.end())
    content = text[blank.end() if blank else closing.end() :]
    return text[opening.end() : closing.start()], content.removesuffix(f"{opening[1]}\n")


def _flat(front: str) -> Iterator[tuple[str, JsonValue]]:
    """The fields that hold something, in their order."""
    events = yaml.parse(front, Loader=yaml.SafeLoader)
    _expect(events, yaml.StreamStartEvent)
    _expect(events, yaml.DocumentStartEvent)
    _expect(events, yaml.MappingStartEvent)
    seen = set[str]()
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        name = _text(event) or ""
        if name in seen:
            raise _refused(f"has {name[:50]!r} twice: say it once")
        seen.add(name)
        value = _value(events)
        if value is not None:
            yield name, value
    _expect(events, yaml.DocumentEndEvent)
    _expect(events, yaml.StreamEndEvent)


def _value(events: "Iterator[yaml.Event]") -> JsonValue:
    event = next(events)
    if not isinstance(event, yaml.SequenceStartEvent):
        return _text(event)
    _check_plain(event)
    held = list[JsonValue]()
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        held.append(_text(event))
    return held


def _text(event: yaml.Event) -> str | None:
    """A scalar as it is written; None of null."""
    if not isinstance(event, yaml.ScalarEvent):
        raise _refused("is not flat: write fields as `title: …`, and lists of words only")
    _check_plain(event)
    is_unquoted = bool(event.implicit[0])
    return None if is_unquoted and event.value in _NULL else str(event.value)


def _check_plain(event: yaml.NodeEvent) -> None:
    if event.anchor is not None or getattr(event, "tag", None) is not None:
        raise _refused("has an anchor, an alias or a tag of YAML (&, * or !): write it out, in quotes if need be")


def _expect(events: "Iterator[yaml.Event]", kind: type[yaml.Event]) -> None:
    if not isinstance(next(events), kind):
        raise _refused("is no mapping: write lines like `title: …`")


def _reason(error: yaml.YAMLError) -> str:
    """PyYAML's problem and its line in the file, without its picture of the source."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f"{error.problem or error.context}{f' in line {mark.line + 2}' if mark else ''}"
    return "it holds characters that are not allowed" if isinstance(error, yaml.reader.ReaderError) else str(error)


def _refused(why: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, f"The front matter {why}.")
