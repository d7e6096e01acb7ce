"""Chat completions of OpenAI, streamed, as OpenAI, Ollama, vLLM, LM Studio, DashScope and Gemini speak them.

Servers differ from OpenAI in the stream: whole tool calls instead of pieces, calls without index or id or all with
index 0, arguments as an object, `stop` as the finish reason of calls, no `[DONE]`. All of that is read.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from skillbus.agent.adapters.chat_models.wire import (
    EVENT_BYTES,
    REPLY_BYTES,
    AnswerBuilder,
    ChatWire,
    Document,
    GrowingCall,
    build_url,
    clean_name,
    get_count,
    get_object,
    get_objects,
    get_text,
    get_upstream,
    keep_upstream,
    load_arguments,
    parse_document,
)
from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.contracts.agent.chat import (
    ChatMessage,
    ChatOptions,
    ChatRole,
    FinishReason,
    FunctionDefinition,
    TokenUsage,
)
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.providers.errors import ErrorEventError, ReplyFormatError
from skillbus.providers.events import ServerEvent
from skillbus.providers.exchange import ProviderRequest

_PLACES: Final[Mapping[ProviderKind, tuple[str, str]]] = {
    ProviderKind.OPENAI: ("https://api.openai.com/v1", "/chat/completions"),
    ProviderKind.OLLAMA: ("http://127.0.0.1:11434", "/v1/chat/completions"),
    ProviderKind.DASHSCOPE: ("https://dashscope.aliyuncs.com/compatible-mode/v1", "/chat/completions"),
    ProviderKind.GEMINI: ("https://generativelanguage.googleapis.com/v1beta/openai", "/chat/completions"),
}
"""Usual address and path of each kind."""
_OWN_FIELDS: Final = frozenset(
    {"model", "messages", "stream", "stream_options", "n", "tools", "tool_choice", "parallel_tool_calls"}
    | {"functions", "function_call"}
)
"""Fields that `extra` cannot set: one answer is streamed, and the tools are those of the call."""
_LAST: Final = b"[DONE]"
_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Names of the thoughts. DeepSeek and others want them back together with the results of the calls they led to."""
_EXTRAS: Final = "extra_content"
"""Field of a call with the signature of the thought that led to it. Gemini wants it back."""
_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def build_openai_request(candidate: ChatModel, call: ModelCall) -> ProviderRequest:
    """Build the request for a streamed completion. Fields of `call.options.extra` never replace our own."""
    base_url, path = _PLACES[candidate.provider.kind]
    url = build_url(candidate, base_url, path)
    body: dict[str, object] = {name: value for name, value in call.options.extra.items() if name not in _OWN_FIELDS}
    body |= {
        "model": candidate.model.name,
        "messages": [_build_message(candidate, message) for message in call.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    # OpenAI's reasoning models refuse the older name, and most other servers know only that one.
    is_openai = candidate.provider.kind is ProviderKind.OPENAI and url.host.endswith((".openai.com", ".azure.com"))
    body |= _build_options(call.options, "max_completion_tokens" if is_openai else "max_tokens")
    if call.tools:
        body["tools"] = [{"type": "function", "function": _build_function(tool)} for tool in call.tools]
        if call.options.tool_choice is not None:
            body["tool_choice"] = call.options.tool_choice
        if call.options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = call.options.parallel_tool_calls
    return ProviderRequest(candidate.model.name, url, body, REPLY_BYTES, event_bytes=EVENT_BYTES, input_fields=None)


def _build_options(options: ChatOptions, max_tokens: str) -> dict[str, object]:
    fields = {
        max_tokens: options.max_completion_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop": list(options.stop) or None,
        "response_format": options.response_format,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _build_function(tool: FunctionDefinition) -> dict[str, object]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function: dict[str, object] = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return function if tool.strict is None else {**function, "strict": tool.strict}


def _build_message(candidate: ChatModel, message: ChatMessage) -> dict[str, object]:
    content = message.content if isinstance(message.content, str | None) else list(message.content)
    # OpenAI takes `system` for `developer`; the templates of other servers know only `system`.
    role = ChatRole.SYSTEM if message.role is ChatRole.DEVELOPER else message.role
    if role is not ChatRole.USER and isinstance(content, list):
        content = message.text
    built: dict[str, object] = {"role": role.value, "content": content}
    if message.name is not None:
        built["name"] = message.name
    if message.tool_call_id is not None:
        built["tool_call_id"] = message.tool_call_id
    if not message.tool_calls:
        return {**built, "content": content or ""}
    upstream = get_upstream(candidate, message)
    extras = upstream.get(_EXTRAS)
    extras = extras if isinstance(extras, list) and len(extras) == len(message.tool_calls) else []
    built["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": clean_name(call.function.name), "arguments": to_json(load_arguments(call)).decode()},
            **({} if extra is None else {_EXTRAS: extra}),
        }
        for call, extra in zip_longest(message.tool_calls, extras)
    ]
    return built | {name: upstream[name] for name in _THOUGHTS if name in upstream}


class OpenAiReader:
    """Implementation of `AnswerReader`."""

    def __init__(self, candidate: ChatModel) -> None:
        self._answer = AnswerBuilder(candidate)
        self._finish = ""
        self._ended = False
        self._usage = TokenUsage()
        self._thoughts: dict[str, list[str]] = {}

    def parse_event(self, event: ServerEvent) -> Document | None:
        """See `AnswerReader.parse_event`."""
        if event.data.strip() == _LAST:
            self._ended = True
            return None
        document = parse_document(event.data)
        error = document.get("error")
        if error:
            raise ErrorEventError(_guess_status(error), event.data)
        return document

    def read_event(self, event: Document) -> str:
        """See `AnswerReader.read_event`."""
        usage = get_object(event, "usage")
        if usage:
            self._usage = _read_usage(usage)
        text = ""
        for choice in get_objects(event, "choices")[:1]:
            self._finish = get_text(choice, "finish_reason") or self._finish
            delta = get_object(choice, "delta") or get_object(choice, "message")
            text = self._answer.add_text(_read_text(delta))
            for name in _THOUGHTS:
                if thought := get_text(delta, name):
                    self._answer.count_characters(thought)
                    self._thoughts.setdefault(name, []).append(thought)
            for part in get_objects(delta, "tool_calls"):
                self._read_call(part)
        return text

    def finish(self) -> ModelAnswer:
        """See `AnswerReader.finish`."""
        if not self._finish and not self._ended:
            raise ReplyFormatError("broke off before the end of the answer")
        answer = self._answer.build_answer(_FINISH.get(self._finish, FinishReason.STOP), self._usage)
        parts = answer.message.tool_calls
        kept: Document = {name: "".join(texts) for name, texts in self._thoughts.items()}
        extras = [call.extra for call in self._answer.calls]  # by position: ids of calls may be replaced
        if any(extra is not None for extra in extras):
            kept[_EXTRAS] = extras
        return keep_upstream(answer, kept) if parts and kept else answer

    def _read_call(self, part: Document) -> None:
        function = get_object(part, "function")
        call = self._find_call(part, function)
        call.id = call.id or get_text(part, "id")
        name = get_text(function, "name")
        if name != call.name:  # some servers repeat it in each piece
            call.name += name
        self._answer.add_arguments(call, function.get("arguments"))
        if part.get(_EXTRAS) is not None:
            self._answer.count_characters(to_json(part[_EXTRAS]).decode())
            call.extra = part[_EXTRAS]

    def _find_call(self, part: Document, function: Document) -> GrowingCall:
        """Return the call that a part continues, or a new one.

        A part without an index, or one of several calls with the same index, is told by its id, or by being whole.
        """
        calls, index, call_id = self._answer.calls, part.get("index"), get_text(part, "id")
        known = [call for call in calls if index is None or call.key == index]
        if not known:
            return self._answer.open_call(index)
        last = known[-1]
        if call_id and last.id and call_id != last.id:
            same = [call for call in known if call.id == call_id]
            return same[-1] if same else self._answer.open_call(index)
        is_whole = bool(get_text(function, "name")) and bool(function.get("arguments"))
        if not call_id and is_whole and last.has_whole_arguments:
            return self._answer.open_call(index)
        return last


def _read_text(delta: Document) -> str:
    content = delta.get("content")
    if isinstance(content, list):  # as Mistral sends it
        return "".join(get_text(part, "text") for part in get_objects(delta, "content"))
    return content if isinstance(content, str) and content else get_text(delta, "refusal")


def _read_usage(usage: Document) -> TokenUsage:
    cached = get_count(get_object(usage, "prompt_tokens_details"), "cached_tokens")
    return TokenUsage(
        prompt_tokens=get_count(usage, "prompt_tokens"),
        completion_tokens=get_count(usage, "completion_tokens"),
        cached_tokens=cached or get_count(usage, "prompt_cache_hit_tokens"),  # the latter is DeepSeek's
        reasoning_tokens=get_count(get_object(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


def _guess_status(error: JsonValue) -> int:
    """Return the status of an error in a stream: its `code`, as OpenRouter and vLLM give it, or 500."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:4])
    return code if isinstance(code, int) and 400 <= code < 600 else 500


OPENAI_WIRE: Final = ChatWire(build_openai_request, OpenAiReader)
