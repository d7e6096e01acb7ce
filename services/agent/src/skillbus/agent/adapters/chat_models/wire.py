"""Parts that all wire formats of chat models share: the interface, reading untrusted JSON, collecting an answer."""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import httpx
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from skillbus.agent.domain.chat.model import ModelAnswer, ModelCall
from skillbus.contracts.agent.chat import ChatMessage, ChatRole, FinishReason, FunctionCall, TokenUsage, ToolCallPart
from skillbus.contracts.embedder.chat_models import ChatModel
from skillbus.providers.errors import ProviderFailedError, ReplyFormatError
from skillbus.providers.events import ServerEvent
from skillbus.providers.exchange import ProviderRequest

Document = dict[str, JsonValue]
REPLY_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a streamed reply. Servers wrap each token of an answer in up to 300 bytes."""
EVENT_BYTES: Final = 4 * 1024 * 1024
ANSWER_CHARS: Final = 4 * 1024 * 1024
"""Most characters of an answer: text, arguments of calls and thoughts."""
CALLS: Final = 256
"""Most tool calls of one answer."""
_PARSED_CHARACTERS: Final = 16_000
_NAME_CHARS: Final = 200
_COUNT: Final = 2**31
_OUTSIDE_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


class AnswerReader(Protocol):
    """Reads the events of one answer. Its methods raise ReplyFormatError for unusable content."""

    def parse_event(self, event: ServerEvent) -> Document | None:
        """Return the content of an event; None is the last one. Raises ErrorEventError."""

    def read_event(self, event: Document) -> str:
        """Take in an event, and return its new text."""

    def finish(self) -> ModelAnswer:
        """Return the whole answer, when the stream has ended."""


@dataclass(frozen=True, slots=True)
class ChatWire:
    """Wire format of a kind of provider."""

    build_request: Callable[[ChatModel, ModelCall], ProviderRequest]
    """Raises ModelRefusedError for what the format cannot say, and ProviderFailedError for an invalid address."""
    open_reader: Callable[[ChatModel], AnswerReader]


def build_url(candidate: ChatModel, base_url: str, path: str) -> httpx.URL:
    """Return the address of a model's requests: the path of its record, or `path`. Raises ProviderFailedError.

    A `/v1` that both the address and the path have is written once.
    """
    base = candidate.provider.base_url or base_url
    if base.endswith("/v1") and path.startswith("/v1/"):
        base = base.removesuffix("/v1")
    try:
        url = httpx.URL(base + (candidate.model.api_path or path))
        usable = bool(url.host) and (url.port is None or 0 < url.port < 65_536)
    except (httpx.InvalidURL, ValueError):  # the latter for host names that IDNA does not know
        usable = False
    if not usable:
        raise ProviderFailedError(candidate.provider.name, "has an invalid address; correct its base_url")
    return url


def parse_document(data: bytes) -> Document:
    """Parse the JSON object of an event. Raises ReplyFormatError."""
    try:
        document: object = from_json(data, allow_inf_nan=False)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ReplyFormatError("sent an event that is no JSON object")
    return document


def get_object(document: Mapping[str, JsonValue], name: str) -> Document:
    """Return a field that is an object, and an empty one otherwise."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(document: Mapping[str, JsonValue], name: str) -> list[Document]:
    """Return the objects in a field that is a list."""
    value = document.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_text(document: Mapping[str, JsonValue], name: str) -> str:
    """Return a field that is text, and an empty one otherwise."""
    value = document.get(name)
    return value if isinstance(value, str) else ""


def get_count(document: Mapping[str, JsonValue], name: str) -> int:
    """Return a field that is a number of tokens, and 0 otherwise."""
    value = document.get(name)
    return int(value) if isinstance(value, int | float) and 0 <= value < _COUNT else 0


def load_arguments(call: ToolCallPart) -> Document:
    """Return the arguments of a call as an object.

    Arguments that are no JSON object become one, with the text as `arguments`: providers refuse a history with them.
    """
    try:
        value: object = from_json(call.function.arguments or "{}", allow_inf_nan=False)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": call.function.arguments}


def clean_name(name: str) -> str:
    """Return a name or id of a call as all providers accept it in a history."""
    return _OUTSIDE_NAMES.sub("_", name)[:64] or "_"


@dataclass(slots=True)
class GrowingCall:
    """Tool call whose parts are coming."""

    key: JsonValue
    """Position or id by which the provider tells its calls apart."""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: JsonValue = None
    """Data that the provider wants back with the call."""

    @property
    def has_whole_arguments(self) -> bool:
        """True if the arguments so far are a JSON value. Long ones never are: each piece would parse all of them."""
        if sum(map(len, self.arguments)) > _PARSED_CHARACTERS:
            return False
        try:
            from_json("".join(self.arguments))
        except ValueError:
            return False
        return True


class AnswerBuilder:
    """Collects the parts of an answer, within bounds. Raises ReplyFormatError beyond them."""

    def __init__(self, candidate: ChatModel) -> None:
        self._candidate = candidate
        self._texts: list[str] = []
        self._size = 0
        self.calls: list[GrowingCall] = []

    def add_text(self, text: str) -> str:
        """Add text of the answer, and return what is added: NUL cannot be carried, and is left out."""
        self.count_characters(text)
        if "\0" in text:
            text = text.replace("\0", "")
        if text:
            self._texts.append(text)
        return text

    def open_call(self, key: JsonValue = None) -> GrowingCall:
        """Begin a further call."""
        if len(self.calls) == CALLS:
            raise ReplyFormatError(f"called more than {CALLS} tools at once")
        call = GrowingCall(key)
        self.calls.append(call)
        return call

    def add_arguments(self, call: GrowingCall, arguments: JsonValue) -> None:
        """Add arguments of a call: text, or the whole as a value."""
        if arguments is None:
            return
        text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        self.count_characters(text)
        call.arguments.append(text)

    def count_characters(self, text: str) -> None:
        """Count what is kept of the answer."""
        self._size += len(text)
        if self._size > ANSWER_CHARS:
            raise ReplyFormatError(f"answered with more than {ANSWER_CHARS >> 20} MiB")

    def build_answer(self, finish: FinishReason, usage: TokenUsage) -> ModelAnswer:
        """Return the answer."""
        calls = tuple(map(_finish_call, self.calls))
        if finish is FinishReason.STOP and calls:  # as Ollama and others say
            finish = FinishReason.TOOL_CALLS
        elif finish is FinishReason.TOOL_CALLS and not calls:
            finish = FinishReason.STOP
        provider, model = self._candidate.provider.name, self._candidate.model.name
        text = "".join(self._texts)
        content = text if text or not calls else None
        return ModelAnswer(
            provider, model, ChatMessage(role=ChatRole.ASSISTANT, content=content, tool_calls=calls), finish, usage
        )


def keep_upstream(answer: ModelAnswer, kept: Document) -> ModelAnswer:
    """Return the answer with what its model wants back."""
    upstream: Document = {"provider": answer.provider, "model": answer.model, **kept}
    return replace(answer, message=answer.message.model_copy(update={"upstream": upstream}))


def get_upstream(candidate: ChatModel, message: ChatMessage) -> Document:
    """Return what the model wants back with its message. Nothing if another model wrote it."""
    upstream = message.upstream if isinstance(message.upstream, dict) else {}
    names = (candidate.provider.name, candidate.model.name)
    return upstream if (upstream.get("provider"), upstream.get("model")) == names else {}


def _finish_call(call: GrowingCall) -> ToolCallPart:
    if not call.name:
        raise ReplyFormatError("called a tool without a name")
    if len(call.name) > _NAME_CHARS:
        raise ReplyFormatError(f"called a tool with a name of more than {_NAME_CHARS} characters")
    if not call.id or len(call.id) > _NAME_CHARS:
        call.id = f"call_{uuid.uuid4().hex}"
    arguments = "".join(call.arguments)
    function = FunctionCall(name=call.name, arguments=arguments if arguments.strip() else "{}")
    return ToolCallPart(id=call.id, function=function)
