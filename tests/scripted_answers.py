"""Answers of scripted chat models, in OpenAI's chat completions and Anthropic's messages, streamed and whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .scripted_upstream import Exchange

Document = dict[str, Any]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Document

    @property
    def is_anthropic(self) -> bool:
        return self.path.endswith("/messages")

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools that the model is shown."""
        return [tool["name"] if self.is_anthropic else tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def results(self) -> list[str]:
        """Texts of the tool results after the last message of the assistant, in either format."""
        texts: list[str] = []
        for message in self.body["messages"]:
            if message["role"] == "assistant":
                texts = []
            elif message["role"] == "tool":
                texts.append(message["content"])
            elif isinstance(message["content"], list):
                texts += [text_of(part["content"]) for part in message["content"] if part["type"] == "tool_result"]
        return texts


def text_of(content: str | list[Document]) -> str:
    """Return the text of a message's content."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Document | str = field(default_factory=dict)
    """An object, or the text that the model writes."""
    id: str = ""
    """Empty means `call_1`, `call_2` and so on."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Answer:
    """What the model answers."""

    text: str | Sequence[str] = ()
    """Text, in the pieces in which it is streamed."""
    calls: Sequence[Call] = ()
    prompt_tokens: int = 10
    completion_tokens: int = 5
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    finish: str | None = None
    """The provider's own word for the end. None means the usual one."""
    thinking: str = ""
    """A signed thought, in Anthropic's format; `reasoning_content` in OpenAI's."""

    @property
    def pieces(self) -> Sequence[str]:
        return [self.text] if isinstance(self.text, str) else self.text

    async def __call__(self, exchange: "Exchange") -> None:
        received = exchange.received
        if not received.body.get("stream"):
            whole = build_message if received.is_anthropic else build_completion
            await exchange.reply(whole(self))
            return
        events = list_message_events(self) if received.is_anthropic else list_chunks(self)
        await exchange.begin()
        await exchange.send(b"".join(events))
        await exchange.end()


def encode_event(document: object, name: str = "") -> bytes:
    """Return a server-sent event."""
    data = document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def list_chunks(answer: Answer) -> list[bytes]:
    """Return the events of an answer in OpenAI's format."""
    deltas: list[Document] = [{"role": "assistant", "content": None if answer.calls else ""}]
    if answer.thinking:
        deltas.append({"reasoning_content": answer.thinking})
    deltas += [{"content": piece} for piece in answer.pieces if piece]
    for index, call in enumerate(answer.calls):
        begun = {"name": call.name, "arguments": ""}
        call_id = call.id or f"call_{index + 1}"
        deltas.append({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": begun}]})
        middle = len(call.text) // 2
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in (call.text[:middle], call.text[middle:])
            if part
        ]
    chunks = [build_chunk(delta) for delta in deltas]
    chunks.append(build_chunk({}, answer.finish or ("tool_calls" if answer.calls else "stop")))
    usage = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return [*chunks, encode_event({**usage, "usage": _count_openai(answer)}), encode_event(b"[DONE]")]


def build_chunk(delta: Document, finish: str | None = None) -> bytes:
    """Return an event with a chunk in OpenAI's format."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return encode_event(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], "usage": None}
    )


def build_completion(answer: Answer) -> Document:
    """Return a whole answer in OpenAI's format."""
    message: Document = {"role": "assistant", "content": "".join(answer.pieces) or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for number, call in enumerate(answer.calls, 1)
        ]
    finish = answer.finish or ("tool_calls" if answer.calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**completion, "choices": [choice], "usage": _count_openai(answer)}


def _count_openai(answer: Answer) -> Document:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }


def list_message_events(answer: Answer) -> list[bytes]:
    """Return the events of an answer in Anthropic's format."""
    whole = build_message(answer)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    events: list[Document] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        kind, deltas = block["type"], []
        match kind:
            case "thinking":
                empty: Document = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces if piece]
            case _:
                empty = {**block, "input": {}}
                text = answer.calls[index - len(whole["content"]) + len(answer.calls)].text
                middle = len(text) // 2
                parts = ("", text[:middle], text[middle:])
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": answer.completion_tokens}
    events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    return [encode_event(event, event["type"]) for event in events]


def build_message(answer: Answer) -> Document:
    """Return a whole answer in Anthropic's format."""
    content: list[Document] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": f"signed {answer.thinking}"})
    if any(answer.pieces):
        content.append({"type": "text", "text": "".join(answer.pieces)})
    for number, call in enumerate(answer.calls, 1):
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        block = {"type": "tool_use", "id": call.id or f"call_{number}", "name": call.name, "input": arguments}
        content.append(block)
    usage = {
        "input_tokens": answer.prompt_tokens - answer.cached_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.completion_tokens,
    }
    finish = answer.finish or ("tool_use" if answer.calls else "end_turn")
    message = {"id": "c", "type": "message", "role": "assistant", "model": "m", "content": content}
    return {**message, "stop_reason": finish, "stop_sequence": None, "usage": usage}
