"""The answer of a tool, cut so that it fits into a message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

TEXT_BYTES: Final = 256 * 1024
CONTENT_BYTES: Final = 384 * 1024
STRUCTURED_BYTES: Final = 192 * 1024
"""Size of each part as JSON; together they leave room in the 1 MiB that NATS accepts."""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call."""

    text: str = ""
    """Text parts of the answer; the reason if the tool failed."""
    content: tuple[JsonValue, ...] = ()
    """All parts as MCP defines them; empty if `text` and `structured` are complete."""
    structured: JsonValue = None
    is_error: bool = False
    truncated: bool = False
    """True if something was left out because of its size."""


def bound_answer(content: Sequence[JsonValue], structured: JsonValue = None, *, is_error: bool = False) -> ToolAnswer:
    """Make the answer from MCP's `content` and `structuredContent`. Parts that are too large are left out."""
    full_text = "\n".join(
        text
        for part in content
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(text := part.get("text"), str)
    )
    text = cut_text(full_text, TEXT_BYTES)
    kept, left_bytes = list[JsonValue](), CONTENT_BYTES
    for part in content:
        size = len(to_json(part))
        if size <= left_bytes:
            left_bytes -= size
            kept.append(part)
    fits = len(to_json(structured)) <= STRUCTURED_BYTES
    return ToolAnswer(
        text=text,
        content=tuple(kept),
        structured=structured if fits else None,
        is_error=is_error,
        truncated=text != full_text or len(kept) < len(content) or not fits,
    )


def cut_text(text: str, max_bytes: int) -> str:
    """Cut the text to about the longest beginning that has at most `max_bytes` as JSON."""
    while (size := len(to_json(text))) > max_bytes:
        text = text[: min(len(text) - 1, len(text) * max_bytes // size)]
    return text
