"""An answer of a server made to fit a message: what is too large is left out, and that is told."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.domain.answer import ToolAnswer

TEXT_BYTES: Final = 256 * 1024
CONTENT_BYTES: Final = 384 * 1024
STRUCTURED_BYTES: Final = 192 * 1024
"""Each as JSON; together with room to spare within the 1 MiB that NATS takes."""


def bounded(content: Sequence[JsonValue], structured: JsonValue = None, *, is_error: bool = False) -> ToolAnswer:
    """The answer of a tool from what MCP calls `content` and `structuredContent`."""
    said = "\n".join(
        text
        for part in content
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(text := part.get("text"), str)
    )
    text = cut(said, TEXT_BYTES)
    kept = _within(content, CONTENT_BYTES)
    fits = len(to_json(structured)) <= STRUCTURED_BYTES
    return ToolAnswer(
        text=text,
        content=kept,
        structured=structured if fits else None,
        is_error=is_error,
        truncated=text != said or len(kept) < len(content) or not fits,
    )


def cut(text: str, limit: int) -> str:
    """The longest beginning that has `limit` bytes as JSON, or nearly."""
    while (size := len(to_json(text))) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // size)]
    return text


def _within(content: Sequence[JsonValue], limit: int) -> tuple[JsonValue, ...]:
    kept: list[JsonValue] = []
    for part in content:
        size = len(to_json(part))
        if size <= limit:
            limit -= size
            kept.append(part)
    return tuple(kept)
