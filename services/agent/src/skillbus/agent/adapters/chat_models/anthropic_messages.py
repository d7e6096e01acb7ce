"""Chats in the format of Anthropic's messages: system texts apart, roles that alternate, content in blocks."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from skillbus.agent.adapters.chat_models.wire import (
    Document,
    clean_name,
    get_object,
    get_objects,
    get_text,
    get_upstream,
    load_arguments,
)
from skillbus.agent.domain.errors import ModelRefusedError
from skillbus.contracts.agent.chat import ChatMessage, ChatRole
from skillbus.contracts.embedder.chat_models import ChatModel

CACHED: Final[Document] = {"cache_control": {"type": "ephemeral"}}
"""Mark of the last block of a prefix that the provider keeps in its cache for five minutes."""
_SYSTEM: Final = frozenset({ChatRole.SYSTEM, ChatRole.DEVELOPER})
_DATA_URL: Final = re.compile(r"data:([\w.+/-]+);base64,")


def build_system(messages: Iterable[ChatMessage]) -> list[Document]:
    """Return the texts of all system messages as blocks, with the last one cached."""
    texts = [message.text for message in messages if message.role in _SYSTEM]
    blocks: list[Document] = [{"type": "text", "text": text} for text in texts if text.strip()]
    return _cache_last(blocks)


def build_messages(candidate: ChatModel, messages: Iterable[ChatMessage], *, cached: bool) -> list[Document]:
    """Return all other messages, those of one role merged. `cached` also keeps the chat so far in the cache.

    Raises ModelRefusedError for content that has no block.
    """
    built: list[tuple[str, list[Document]]] = []
    for message in messages:
        if message.role in _SYSTEM:
            continue
        role = "assistant" if message.role is ChatRole.ASSISTANT else "user"
        blocks = _build_blocks(candidate, message)
        if built and built[-1][0] == role:
            built[-1][1].extend(blocks)
        elif blocks:
            built.append((role, blocks))
    if cached and built and built[-1][0] == "user":
        _cache_last(built[-1][1])
    return [{"role": role, "content": list[JsonValue](blocks)} for role, blocks in built]


def _cache_last(blocks: list[Document]) -> list[Document]:
    if blocks:
        blocks[-1] = {**blocks[-1], **CACHED}
    return blocks


def _build_blocks(candidate: ChatModel, message: ChatMessage) -> list[Document]:
    if message.role is ChatRole.TOOL:
        result = list[JsonValue](_build_content(message))
        return [{"type": "tool_result", "tool_use_id": clean_name(message.tool_call_id or ""), "content": result}]
    if message.role is not ChatRole.ASSISTANT:
        return _build_content(message)
    uses: list[Document] = [
        {
            "type": "tool_use",
            "id": clean_name(call.id),
            "name": clean_name(call.function.name),
            "input": load_arguments(call),
        }
        for call in message.tool_calls
    ]
    return _read_thought_blocks(candidate, message, uses) or _build_content(message) + uses


def _read_thought_blocks(candidate: ChatModel, message: ChatMessage, uses: Sequence[Document]) -> list[Document]:
    """Return all blocks as this model wrote them, if it signed thoughts, with these calls in place of its own.

    Nothing if there are no thoughts, or other calls. The ids of calls may have been replaced.
    """
    listed = get_objects(get_upstream(candidate, message), "blocks")
    written = [block for block in listed if block.get("type") != "text" or get_text(block, "text").strip()]
    if [clean_name(get_text(block, "name")) for block in written if _is_use(block)] != [use["name"] for use in uses]:
        return []
    left = iter(uses)
    return [next(left) if _is_use(block) else block for block in written]


def _is_use(block: Document) -> bool:
    return block.get("type") == "tool_use"


def _build_content(message: ChatMessage) -> list[Document]:
    """Return blocks of text and images. Empty texts, which Anthropic refuses, are left out."""
    if isinstance(message.content, str | None):
        return [{"type": "text", "text": message.content}] if message.content and message.content.strip() else []
    return [block for part in message.content if (block := _build_part(part))]


def _build_part(part: Document) -> Document | None:
    match part.get("type"):
        case "text":
            text = get_text(part, "text")
            return {"type": "text", "text": text} if text.strip() else None
        case "image_url":
            return {"type": "image", "source": _build_image(part)}
        case kind:
            known = kind[:50] if isinstance(kind, str) else "no type"
            raise ModelRefusedError(f"models of Anthropic take parts of type text and image_url, not {known!r}")


def _build_image(part: Document) -> Document:
    url = get_text(get_object(part, "image_url"), "url") or get_text(part, "image_url")
    if found := _DATA_URL.match(url):
        return {"type": "base64", "media_type": found[1], "data": url[found.end() :]}
    if not url.startswith(("https://", "http://")):
        raise ModelRefusedError("the URL of an image is neither http(s): nor data: with base64; send one of these")
    return {"type": "url", "url": url}
