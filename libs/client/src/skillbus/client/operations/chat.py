"""Chats with a model that finds and calls tools by itself."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import httpx
from pydantic_core import to_jsonable_python

from skillbus.client.call import SentParts, build_error, build_unexpected, parse_reply
from skillbus.client.operation import ReplyParser, custom_operation, json_operation, stream_operation
from skillbus.client.operations.runs import SILENCE_S
from skillbus.client.route import HttpRoute, PreparedRequest
from skillbus.contracts.agent.turns import TurnCancelled, TurnSelector
from skillbus.contracts.chat_http import (
    CallDecision,
    ChatChunk,
    ChatCompletion,
    DecisionsBody,
    DecisionsTaken,
    SkillbusChatOptions,
)

_COMPLETIONS: Final = "/v1/chat/completions"
_RUN: Final = "/v1/chat/runs/{turn_id}"
_CHAT_S: Final = 360.0
_DATA: Final = "data:"
_ID: Final = "id:"
_DONE: Final = "[DONE]"


def _prepare_chat(
    messages: str | Sequence[Mapping[str, object]],
    *,
    model: str = "auto",
    tools: Sequence[Mapping[str, object]] = (),
    options: SkillbusChatOptions | Mapping[str, object] | None = None,
    fields: Mapping[str, object] | None = None,
    project: str | None = None,
) -> PreparedRequest:
    return _build_request(messages, model, tools, options, {**(fields or {})}, project)


def _prepare_stream(
    messages: str | Sequence[Mapping[str, object]],
    *,
    model: str = "auto",
    tools: Sequence[Mapping[str, object]] = (),
    options: SkillbusChatOptions | Mapping[str, object] | None = None,
    fields: Mapping[str, object] | None = None,
    project: str | None = None,
) -> PreparedRequest:
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    return _build_request(messages, model, tools, options, {**(fields or {}), **streamed}, project)


def _build_request(
    messages: str | Sequence[Mapping[str, object]],
    model: str,
    tools: Sequence[Mapping[str, object]],
    options: SkillbusChatOptions | Mapping[str, object] | None,
    fields: Mapping[str, object],
    project: str | None,
) -> PreparedRequest:
    """Return the request. `messages` can be the words of the user alone; `fields` are further ones of OpenAI's API."""
    asked: object = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    body: dict[str, object] = {**fields, "model": model, "messages": asked}
    if tools:
        body["tools"] = list(tools)
    if options is not None:
        own = options if isinstance(options, SkillbusChatOptions) else SkillbusChatOptions.model_validate(options)
        body["metadata"] = {"skillbus": own.model_dump(mode="json", exclude_unset=True)}
    plain = json.loads(json.dumps(to_jsonable_python(body), allow_nan=False))
    return PreparedRequest({"project": project}, SentParts(json=plain))


def _prepare_follow(turn_id: str, *, after: int | None = None, project: str | None = None) -> PreparedRequest:
    return PreparedRequest({"turn_id": turn_id, "after": after, "project": project})


def _prepare_decisions(
    turn_id: str, decisions: Sequence[CallDecision | Mapping[str, object]], *, project: str | None = None
) -> PreparedRequest:
    body = DecisionsBody.model_validate({"decisions": decisions})
    return PreparedRequest(
        {"turn_id": turn_id, "project": project}, SentParts(json=body.model_dump(mode="json", exclude_unset=True))
    )


class ChunkParser:
    """Parser of the chunks of a streamed chat completion."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._done = False
        self._number: int | None = None

    def feed_line(self, line: str) -> ChatChunk | None:
        """Return the chunk that a line holds, or None. Raises ApiError if the turn failed."""
        if line.startswith(_ID):
            self._number = int(line.removeprefix(_ID))
        if not line.startswith(_DATA):
            return None
        text = line.removeprefix(_DATA).strip()
        if text == _DONE:
            self._done = True
            return None
        if text.startswith('{"error"'):
            raise build_error(text.encode(), self._response)
        return parse_reply(ChatChunk, text, self._response).model_copy(update={"number": self._number})

    def finish(self) -> None:
        """Check that the stream is complete. Raises UnexpectedReplyError if it is not."""
        if not self._done:
            raise build_unexpected(self._response, "the stream ended before the answer was complete")


class ChatOperations:
    """Chats with a model that finds and calls tools by itself."""

    create_chat_completion = custom_operation(
        HttpRoute("POST", _COMPLETIONS, in_query=("project",), timeout_s=_CHAT_S),
        _prepare_chat,
        ReplyParser(ChatCompletion),
    )
    """Answer a chat. `messages` is a text, or messages in OpenAI's format; `fields` are further ones of that API.

    `tools` are the caller's own. `options` are those of skillbus, such as `{"knowledge": {"scope": "/api/*"}}`.
    """
    stream_chat_completion = stream_operation(
        HttpRoute("POST", _COMPLETIONS, in_query=("project",), timeout_s=SILENCE_S), _prepare_stream, ChunkParser
    )
    """Answer a chat, and yield its chunks as they come. Leaving the context before the end cancels the turn."""
    follow_chat_run = stream_operation(HttpRoute("GET", _RUN, timeout_s=SILENCE_S), _prepare_follow, ChunkParser)
    """Follow a turn again by its id, up to ten minutes after its end. Leaving does not cancel it.

    `after` is the `number` of the last known chunk.
    """
    approve_chat_run = custom_operation(
        HttpRoute("POST", f"{_RUN}/approve", in_query=("project",)), _prepare_decisions, ReplyParser(DecisionsTaken)
    )
    """Approve or deny calls of a turn that wait for it. `answer_approvals` does so for all calls of a stream."""
    cancel_chat_run = json_operation("DELETE", _RUN, TurnSelector, TurnCancelled)
    """Cancel a turn, with its request to the model and the tools that it is calling."""
