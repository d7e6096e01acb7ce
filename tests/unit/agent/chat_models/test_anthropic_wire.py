"""Anthropic's wire format: what is sent, and what is read."""

import json
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.agent.adapters.chat_models.anthropic_wire import ANTHROPIC_WIRE, MAX_TOKENS, AnthropicReader
from skillbus.agent.domain.chat.model import ModelCall
from skillbus.agent.domain.errors import ModelRefusedError
from skillbus.contracts.agent.chat import ChatMessage, ChatOptions, ChatRole, FinishReason
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.providers.errors import ErrorEventError, ReplyFormatError

from ....scripted_answers import Answer, Call, encode_event, list_message_events
from .records import TOOL, calling, make_chat_model, read_stream, result, system, user

MODEL = make_chat_model(ProviderKind.ANTHROPIC)
CACHED = {"cache_control": {"type": "ephemeral"}}
JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
KINDS = ["message_start", "content_block_start", "content_block_delta", "message_delta", "ping"]
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional=dict.fromkeys(("index", "delta", "content_block", "message", "usage"), JSON),
)


def build_body(*messages: ChatMessage, **fields: object) -> dict[str, object]:
    """Return the body of a request, after a check against the types of Anthropic's own library."""
    tools = fields.pop("tools", ())
    call = ModelCall(messages, tools, ChatOptions.model_validate(fields))  # type: ignore[arg-type]
    body = ANTHROPIC_WIRE.build_request(MODEL, call).body
    known = MessageCreateParamsStreaming.__annotations__ | {"top_p": 0, "temperature": 0, "top_k": 0}
    assert body.keys() <= known.keys()
    return body


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=5),
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=3),
    st.text(max_size=5),
)
def test_a_streamed_answer_is_read_whole(texts: list[str], arguments: list[dict[str, object]], thinking: str) -> None:
    answer = Answer(texts, [Call(f"f{number}", given) for number, given in enumerate(arguments)], thinking=thinking)
    pieces, whole = read_stream(AnthropicReader(MODEL), list_message_events(answer))
    assert "".join(pieces) == (whole.message.content or "") == "".join(texts).replace("\0", "")
    assert [json.loads(call.function.arguments) for call in whole.message.tool_calls] == arguments
    assert whole.finish_reason is (FinishReason.TOOL_CALLS if arguments else FinishReason.STOP)
    assert (whole.message.upstream is not None) == bool(thinking and arguments)
    assert whole.usage.total_tokens == 15


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=4))
def test_odd_events_are_refused_or_ignored_but_never_break(events: list[dict[str, JsonValue]]) -> None:
    reader = AnthropicReader(MODEL)
    try:
        for event in events:
            reader.read_event(event)
        reader.finish()
    except ReplyFormatError:
        return


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("stop_sequence", FinishReason.STOP),
        ("a new word", FinishReason.STOP),
    ],
)
def test_each_end_has_a_reason(word: str, finish: FinishReason) -> None:
    _, answer = read_stream(AnthropicReader(MODEL), list_message_events(Answer("x", finish=word)))
    assert answer.finish_reason is finish


def test_a_stream_without_an_end_is_a_failure() -> None:
    with pytest.raises(ReplyFormatError):
        read_stream(AnthropicReader(MODEL), list_message_events(Answer("x"))[:-2])


@pytest.mark.parametrize(("kind", "status"), [("overloaded_error", 529), ("invalid_request_error", 400), ("new", 500)])
def test_an_error_in_the_stream_has_a_status(kind: str, status: int) -> None:
    with pytest.raises(ErrorEventError) as raised:
        read_stream(AnthropicReader(MODEL), [encode_event({"type": "error", "error": {"type": kind}}, "error")])
    assert raised.value.status == status


def test_arguments_that_were_cut_stay_as_they_are_and_go_back_as_an_object() -> None:
    events = list_message_events(Answer(calls=[Call("f", '{"x": ')], thinking="hm", finish="max_tokens"))
    _, answer = read_stream(AnthropicReader(MODEL), events)
    assert answer.message.tool_calls[0].function.arguments == '{"x": '
    sent = build_body(user("x"), answer.message, result("bad"))["messages"]
    assert sent[1]["content"][1]["input"] == {"arguments": '{"x": '}  # type: ignore[index]


def test_a_chat_becomes_system_texts_and_roles_that_alternate() -> None:
    history = (
        system("Be short."),
        ChatMessage(role=ChatRole.DEVELOPER, content="Be kind."),
        user("a"),
        user(({"type": "text", "text": "b"}, {"type": "text", "text": " "})),
        calling("f", '{"x": 1}', "functions.f:0", content="Let me see."),
        result("1", "functions.f:0"),
        ChatMessage(role=ChatRole.ASSISTANT, content=""),
        user("c"),
    )
    body = build_body(*history, tools=(TOOL, TOOL))
    assert body["system"] == [{"type": "text", "text": "Be short."}, {"type": "text", "text": "Be kind.", **CACHED}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "functions_f_0", "name": "f", "input": {"x": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "functions_f_0", "content": [{"type": "text", "text": "1"}]},
                {"type": "text", "text": "c", **CACHED},
            ],
        },
    ]
    tool = {"name": "add", "description": "Add.", "input_schema": {"type": "object"}}
    assert body["tools"] == [tool, {**tool, **CACHED}]
    assert body["max_tokens"] == MAX_TOKENS


def test_without_tools_only_the_system_texts_are_cached() -> None:
    assert "cache_control" not in json.dumps(build_body(user("a")))


def test_images_become_blocks() -> None:
    parts = (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
    )
    messages: Any = build_body(user(parts))["messages"]
    assert [block["source"] for block in messages[0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "aGk="},
        {"type": "url", "url": "https://example.org/a.png"},
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": {"url": "data:image/png,raw"}},
        {"text": "no type"},
    ],
)
def test_other_parts_are_refused(part: dict[str, JsonValue]) -> None:
    with pytest.raises(ModelRefusedError):
        build_body(user((part,)))


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        ("auto", True, {"type": "auto"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", None, {"type": "any"}),
        ("none", False, {"type": "none"}),
        ({"type": "function", "function": {"name": "add"}}, None, {"type": "tool", "name": "add"}),
    ],
)
def test_the_choice_of_tools_is_translated(choice: JsonValue, parallel: bool | None, expected: JsonValue) -> None:
    body = build_body(user("x"), tools=(TOOL,), tool_choice=choice, parallel_tool_calls=parallel)
    assert body.get("tool_choice") == expected


@pytest.mark.parametrize("choice", ["any", {"type": "allowed_tools"}, 1])
def test_an_unknown_choice_is_refused(choice: JsonValue) -> None:
    with pytest.raises(ModelRefusedError):
        build_body(user("x"), tools=(TOOL,), tool_choice=choice)


def test_options_are_translated_and_fields_of_openai_are_left_out() -> None:
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    extra = {"seed": 1, "user": "u", "metadata": {"a": "b"}, "output_config": {"effort": "low"}, "max_tokens": 1}
    body = build_body(
        user("x"), temperature=1.5, stop=("a",), max_completion_tokens=9, response_format=form, extra=extra
    )
    assert body == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "stream": True,
        "temperature": 1.0,
        "stop_sequences": ["a"],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
    }


@pytest.mark.parametrize("form", [{"type": "json_object"}, {"type": "json_schema"}, {}])
def test_a_format_that_anthropic_lacks_is_refused(form: dict[str, JsonValue]) -> None:
    with pytest.raises(ModelRefusedError):
        build_body(user("x"), response_format=form)


def test_thoughts_go_back_with_calls_that_have_new_ids() -> None:
    events = list_message_events(Answer("Let me see.", calls=[Call("f", {"x": 1}), Call("g")], thinking="hm"))
    _, answer = read_stream(AnthropicReader(MODEL), events)
    calls = tuple(call.model_copy(update={"id": f"new_{call.id}"}) for call in answer.message.tool_calls)
    message = answer.message.model_copy(update={"tool_calls": calls})
    messages: Any = build_body(user("x"), message, result("1", "new_call_1"), result("2", "new_call_2"))["messages"]
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "signed hm"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "new_call_1", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "new_call_2", "name": "g", "input": {}},
    ]


def test_thoughts_of_another_model_or_of_other_calls_stay_away() -> None:
    events = list_message_events(Answer(calls=[Call("f", {})], thinking="hm"))
    _, answer = read_stream(AnthropicReader(make_chat_model(ProviderKind.ANTHROPIC, name="other")), events)
    for message in (answer.message, answer.message.model_copy(update={"tool_calls": ()})):
        assert "hm" not in json.dumps(build_body(user("x"), message, user("y")))
    _, answer = read_stream(AnthropicReader(MODEL), events)
    assert "hm" in json.dumps(build_body(user("x"), answer.message, result("1")))
    assert "hm" not in json.dumps(
        build_body(user("x"), answer.message.model_copy(update={"tool_calls": ()}), user("y"))
    )
