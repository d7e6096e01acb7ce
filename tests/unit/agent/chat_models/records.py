"""Records of chat models, and streams that are read without a network."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from skillbus.agent.adapters.chat_models.wire import AnswerReader, Document
from skillbus.agent.domain.chat.model import ModelAnswer
from skillbus.contracts.agent.chat import ChatMessage, ChatRole, FunctionCall, FunctionDefinition, ToolCallPart
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderKind, ProviderRecord
from skillbus.providers.events import EventDecoder

WHEN = datetime(2026, 11, 23, tzinfo=UTC)
TOOL = FunctionDefinition(name="add", description="Add.", parameters={"type": "object"})


def make_chat_model(
    kind: ProviderKind = ProviderKind.OPENAI, url: str | None = None, name: str = "m", api_path: str | None = None
) -> ChatModel:
    times = {"version": 1, "created_at": WHEN, "updated_at": WHEN}
    provider = ProviderRecord.model_validate({"name": "acme", "kind": kind, "base_url": url, **times})
    model: dict[str, object] = {"id": "0" * 32, "provider": "acme", "name": name, "kind": ModelKind.CHAT}
    model |= {"is_default": True, "fingerprint": None, "api_path": api_path, **times}
    return ChatModel(model=ModelRecord.model_validate(model), provider=provider)


def user(content: object) -> ChatMessage:
    return ChatMessage.model_validate({"role": "user", "content": content})


def system(content: str) -> ChatMessage:
    return ChatMessage(role=ChatRole.SYSTEM, content=content)


def calling(name: str, arguments: str, call_id: str = "call_1", **fields: object) -> ChatMessage:
    part = ToolCallPart(id=call_id, function=FunctionCall(name=name, arguments=arguments))
    return ChatMessage.model_validate({"role": "assistant", "tool_calls": (part,), **fields})


def result(content: str, call_id: str = "call_1") -> ChatMessage:
    return ChatMessage(role=ChatRole.TOOL, content=content, tool_call_id=call_id)


def read_stream(reader: AnswerReader, chunks: Iterable[bytes]) -> tuple[list[str], ModelAnswer]:
    """Return the pieces of text and the whole answer of a stream, up to its last event."""
    decoder, pieces = EventDecoder(1_000_000), []
    for event in [event for chunk in chunks for event in decoder.decode(chunk)]:
        document = reader.parse_event(event)
        if document is None:
            break
        pieces.append(reader.read_event(document))
    return [piece for piece in pieces if piece], reader.finish()


def chunk(delta: Document, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def call_part(arguments: object, **fields: object) -> Document:
    """A part of a call in OpenAI's format, with fields of the part, and `name` of the function."""
    function = {"arguments": arguments} | ({"name": fields.pop("name")} if "name" in fields else {})
    return {"tool_calls": [{**fields, "function": function}]}  # type: ignore[dict-item]
