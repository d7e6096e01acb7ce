"""Messages of Anthropic, streamed (API version 2023-06-01)."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from skillbus.agent.adapters.chat_models.anthropic_messages import CACHED, build_messages, build_system
from skillbus.agent.adapters.chat_models.wire import (
    EVENT_BYTES,
    REPLY_BYTES,
    AnswerBuilder,
    ChatWire,
    Document,
    GrowingCall,
    build_url,
    get_count,
    get_object,
    get_text,
    keep_upstream,
    parse_document,
)
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.agent.domain.errors import ModelRefusedError
from skillbus.contracts.agent.chat import ChatOptions, FinishReason, FunctionDefinition, TokenUsage
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.providers.errors import ErrorEventError, ReplyFormatError
from skillbus.providers.events import ServerEvent
from skillbus.providers.exchange import KeyHeader, ProviderRequest

_BASE_URL: Final = "https://api.anthropic.com"
_PATH: Final = "/v1/messages"
_HEADERS: Final = {"anthropic-version": "2023-06-01"}
MAX_TOKENS: Final = 8_192
"""`max_tokens` of a call that sets none: Anthropic requires it, and refuses more than a model can write."""
_EXTRA_FIELDS: Final = frozenset(
    {"thinking", "top_k", "container", "context_management", "inference_geo", "mcp_servers", "output_config", "speed"}
)
"""Fields of `extra` that Anthropic has. It refuses unknown fields, so those of OpenAI are left out."""
_OUTPUT: Final = "output_config"
_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "pause_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
}
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""Status of each type of error; 500 of all others."""


def build_anthropic_request(candidate: ChatModel, call: ModelCall) -> ProviderRequest:
    """Build the request for a streamed message. Raises ModelRefusedError for what the format cannot say."""
    options = call.options
    body: dict[str, object] = {name: value for name, value in options.extra.items() if name in _EXTRA_FIELDS}
    body |= {
        "model": candidate.model.name,
        "max_tokens": options.max_completion_tokens or MAX_TOKENS,
        "messages": build_messages(candidate, call.messages, cached=bool(call.tools)),
        "stream": True,
    }
    if system := build_system(call.messages):
        body["system"] = system
    body |= _build_options(options)
    if output := _build_format(options.response_format):
        body[_OUTPUT] = {**get_object(options.extra, _OUTPUT), "format": output}
    if call.tools:
        tools = [_build_tool(tool) for tool in call.tools]
        body["tools"] = [*tools[:-1], {**tools[-1], **CACHED}]
        if choice := _build_choice(options):
            body["tool_choice"] = choice
    return ProviderRequest(
        candidate.model.name,
        build_url(candidate, _BASE_URL, _PATH),
        body,
        REPLY_BYTES,
        event_bytes=EVENT_BYTES,
        headers=_HEADERS,
        key_header=KeyHeader.X_API_KEY,
        input_fields=None,
    )


def _build_options(options: ChatOptions) -> dict[str, object]:
    fields = {
        "temperature": None if options.temperature is None else min(options.temperature, 1.0),  # OpenAI has up to 2
        "top_p": options.top_p,
        "stop_sequences": list(options.stop) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _build_format(response_format: Mapping[str, JsonValue] | None) -> Document | None:
    """Translate OpenAI's `json_schema`. Anthropic has no JSON without a schema."""
    kind = None if response_format is None else response_format.get("type")
    if response_format is None or kind == "text":
        return None
    schema = get_object(get_object(response_format, "json_schema"), "schema")
    if kind != "json_schema" or not schema:
        raise ModelRefusedError("models of Anthropic take a response_format of text, or json_schema with a schema")
    return {"type": "json_schema", "schema": schema}


def _build_tool(tool: FunctionDefinition) -> Document:
    schema = tool.parameters or {"type": "object", "properties": {}}
    built: Document = {"name": tool.name, "description": tool.description, "input_schema": schema}
    return {**built, "strict": True} if tool.strict else built


def _build_choice(options: ChatOptions) -> Document | None:
    choice = options.tool_choice
    match choice:
        case None | "auto":
            built: Document = {"type": "auto"}
        case "required":
            built = {"type": "any"}
        case "none":
            return {"type": "none"}
        case {"type": "function", "function": {"name": str(name)}}:
            built = {"type": "tool", "name": name}
        case _:
            raise ModelRefusedError("models of Anthropic take a tool_choice of none, auto, required or one function")
    if options.parallel_tool_calls is False:
        built["disable_parallel_tool_use"] = True
    return built if choice is not None or len(built) > 1 else None


class AnthropicReader:
    """Implementation of `AnswerReader`."""

    def __init__(self, candidate: ChatModel) -> None:
        self._answer = AnswerBuilder(candidate)
        self._finish = ""
        self._usage: Document = {}
        self._blocks: list[Document] = []
        """All blocks as they began."""
        self._pieces: dict[tuple[int, str], list[str]] = {}
        """Text that came later, by number of the block and field."""
        self._calls: dict[int, GrowingCall] = {}
        """Calls by the number of their block."""

    def parse_event(self, event: ServerEvent) -> Document | None:
        """See `AnswerReader.parse_event`."""
        document = parse_document(event.data)
        match document.get("type") or event.name:
            case "message_stop":
                return None
            case "error":
                kind = get_text(get_object(document, "error"), "type")
                raise ErrorEventError(_STATUSES.get(kind, 500), event.data)
        return document

    def read_event(self, event: Document) -> str:
        """See `AnswerReader.read_event`."""
        match event.get("type"):
            case "message_start":
                self._usage = get_object(get_object(event, "message"), "usage")
            case "content_block_start":
                return self._begin_block(get_object(event, "content_block"))
            case "content_block_delta":
                return self._continue_block(get_object(event, "delta"))
            case "message_delta":
                self._finish = get_text(get_object(event, "delta"), "stop_reason") or self._finish
                self._usage = {**self._usage, **get_object(event, "usage")}
        return ""

    def finish(self) -> ModelAnswer:
        """See `AnswerReader.finish`."""
        if not self._finish:
            raise ReplyFormatError("broke off before the end of the answer")
        finish = _FINISH.get(self._finish, FinishReason.STOP)
        answer = self._answer.build_answer(finish, _read_usage(self._usage))
        if not answer.message.tool_calls or not any("thinking" in get_text(block, "type") for block in self._blocks):
            return answer
        for (number, field), pieces in self._pieces.items():
            block = self._blocks[number]
            block[field] = get_text(block, field) + "".join(pieces)
        return keep_upstream(answer, {"blocks": list[JsonValue](self._blocks)})

    def _begin_block(self, block: Document) -> str:
        self._answer.count_characters("".join(text for text in block.values() if isinstance(text, str)))
        self._blocks.append(dict(block))
        if block.get("type") == "tool_use":
            call = self._calls[len(self._blocks) - 1] = self._answer.open_call()
            call.id, call.name = get_text(block, "id"), get_text(block, "name")
            if block.get("input"):  # some servers send the whole at once
                self._answer.add_arguments(call, block["input"])
        return self._answer.add_text(get_text(block, "text")) if block.get("type") == "text" else ""

    def _continue_block(self, delta: Document) -> str:
        """Take in a part of the last block: Anthropic sends blocks one after another."""
        if not self._blocks:
            raise ReplyFormatError("continued a block that had not begun")
        match delta.get("type"):
            case "text_delta":
                text = self._answer.add_text(get_text(delta, "text"))
                self._note_piece("text", text)
                return text
            case "input_json_delta":
                if call := self._calls.get(len(self._blocks) - 1):
                    self._answer.add_arguments(call, delta.get("partial_json"))
            case "thinking_delta":
                self._note_piece("thinking", get_text(delta, "thinking"))
            case "signature_delta":
                self._note_piece("signature", get_text(delta, "signature"))
        return ""

    def _note_piece(self, field: str, text: str) -> None:
        self._answer.count_characters(text)
        self._pieces.setdefault((len(self._blocks) - 1, field), []).append(text)


def _read_usage(usage: Document) -> TokenUsage:
    cached = get_count(usage, "cache_read_input_tokens")
    return TokenUsage(
        prompt_tokens=get_count(usage, "input_tokens") + cached + get_count(usage, "cache_creation_input_tokens"),
        completion_tokens=get_count(usage, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=get_count(get_object(usage, "output_tokens_details"), "thinking_tokens"),
    )


ANTHROPIC_WIRE: Final = ChatWire(build_anthropic_request, AnthropicReader)
