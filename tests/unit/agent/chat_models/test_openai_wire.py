"""OpenAI's wire format: what is sent, and what is read of servers that differ from OpenAI."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from skillbus.agent.adapters.chat_models import wire
from skillbus.agent.adapters.chat_models.openai_wire import OPENAI_WIRE, OpenAiReader
from skillbus.agent.domain.chat.model import ModelCall
from skillbus.contracts.agent.chat import ChatMessage, ChatOptions, ChatRole, FinishReason
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.providers.errors import ErrorEventError, ProviderFailedError, ReplyFormatError

from ....scripted_answers import Answer, Call, list_chunks
from .records import TOOL, call_part, calling, chunk, make_chat_model, read_stream, result, system, user

MODEL = make_chat_model()
STOP = chunk({}, "stop")
SECOND = call_part("{}", id="b", name="g")
SECOND_NULL = call_part(None, index=1, id="b", name="g")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def build_body(call: ModelCall, **model: object) -> dict[str, object]:
    return OPENAI_WIRE.build_request(make_chat_model(**model), call).body  # type: ignore[arg-type]


def read_calls(*chunks: bytes) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of the calls in a stream."""
    _, answer = read_stream(OpenAiReader(MODEL), [*chunks, STOP])
    return [(call.id, call.function.name, call.function.arguments) for call in answer.message.tool_calls]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=5),
    st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), max_size=3),
)
def test_a_streamed_answer_is_read_whole(texts: list[str], arguments: list[dict[str, object]]) -> None:
    answer = Answer(texts, [Call(f"f{number}", given) for number, given in enumerate(arguments)])
    pieces, whole = read_stream(OpenAiReader(MODEL), list_chunks(answer))
    assert "".join(pieces) == (whole.message.content or "") == "".join(texts).replace("\0", "")
    assert [call.function.name for call in whole.message.tool_calls] == [call.name for call in answer.calls]
    assert [json.loads(call.function.arguments) for call in whole.message.tool_calls] == arguments
    assert whole.finish_reason is (FinishReason.TOOL_CALLS if arguments else FinishReason.STOP)
    assert whole.usage.total_tokens == 15


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["choices", "usage", "id", "error2"]), JSON), JSON, JSON)
def test_odd_events_are_refused_or_ignored_but_never_break(
    event: dict[str, JsonValue], delta: JsonValue, part: JsonValue
) -> None:
    odd: dict[str, JsonValue] = {"choices": [{"delta": {"content": delta, "tool_calls": [part, {"function": part}]}}]}
    documents: list[dict[str, Any]] = [
        *(event, {"choices": [event, delta]}, odd),
        {"choices": [{"delta": delta, "finish_reason": part}]},
    ]
    for document in documents:
        reader = OpenAiReader(MODEL)
        try:
            reader.read_event(document)
            reader.finish()
        except ReplyFormatError:
            continue


@pytest.mark.parametrize(
    "parts",
    [
        [call_part("{}", index=0, id="a", name="f"), call_part("{}", index=0, id="b", name="g")],
        [call_part("{}", id="a", name="f"), SECOND],
        [call_part({}, index=None, id="a", name="f"), call_part({}, index=None, id="b", name="g")],
        [call_part("{", index=0, id="a", name="f"), call_part("}", index=0), SECOND],
        [call_part("", index=0, id="a", name=""), call_part("{}", index=0, name="f"), SECOND],
        [call_part("{", index=0, id="a", name="f"), call_part("}", index=0, id="a", name="f"), SECOND_NULL],
    ],
    ids=["index 0 always", "no index", "objects", "in pieces", "empty name first", "name and id repeated, null"],
)
def test_calls_are_told_apart(parts: list[dict[str, JsonValue]]) -> None:
    assert read_calls(*map(chunk, parts)) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_whole_calls_without_ids_get_ids_of_their_own() -> None:
    calls = read_calls(chunk(call_part('{"x": 1}', index=0, name="f")), chunk(call_part('{"x": 2}', index=0, name="f")))
    assert [arguments for _, _, arguments in calls] == ['{"x": 1}', '{"x": 2}']
    assert len({call_id for call_id, _, _ in calls}) == 2
    assert all(call_id.startswith("call_") for call_id, _, _ in calls)


def test_a_whole_message_in_an_event_is_read() -> None:
    message: JsonValue = {"content": "x", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"y": 1}}}]}
    event = {"choices": [{"message": message, "finish_reason": "stop"}]}
    _, answer = read_stream(OpenAiReader(MODEL), [b"data: " + json.dumps(event).encode() + b"\n\n"])
    assert answer.message.content == "x"
    assert answer.message.tool_calls[0].function.arguments == '{"y":1}'
    assert answer.finish_reason is FinishReason.TOOL_CALLS


def test_an_end_is_a_finish_reason_or_done() -> None:
    for end in (chunk({}, "eos"), b"data: [DONE]\n\n"):
        _, answer = read_stream(OpenAiReader(MODEL), [chunk({"content": "x"}), end])
        assert answer.finish_reason is FinishReason.STOP
    with pytest.raises(ReplyFormatError):
        read_stream(OpenAiReader(MODEL), [chunk({"content": "x"})])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429),
        ({"code": "400"}, 400),
        ({"code": "rate_limit"}, 500),
        ("broken", 500),
        ({"code": 1e9}, 500),
    ],
)
def test_an_error_in_the_stream_has_a_status(error: object, status: int) -> None:
    with pytest.raises(ErrorEventError) as raised:
        read_stream(OpenAiReader(MODEL), [b"data: " + json.dumps({"error": error}).encode() + b"\n\n"])
    assert raised.value.status == status


@pytest.mark.parametrize("data", [b"{", b"[]", b"1", b'"\xff"', b"[" * 100_000, b'{"a": NaN}'])
def test_an_event_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ReplyFormatError):
        read_stream(OpenAiReader(MODEL), [b"data: " + data + b"\n\n"])


def test_an_answer_has_bounds() -> None:
    reader = OpenAiReader(MODEL)
    large: wire.Document = {"choices": [{"delta": {"content": "x" * (wire.ANSWER_CHARS // 2)}}]}
    reader.read_event(large)
    reader.read_event(large)
    with pytest.raises(ReplyFormatError):
        reader.read_event({"choices": [{"delta": {"content": "x"}}]})
    with pytest.raises(ReplyFormatError):
        read_calls(*(chunk(call_part("{}", index=number, name="f")) for number in range(wire.CALLS + 1)))
    for name in ("", "f" * 201):
        with pytest.raises(ReplyFormatError):
            read_calls(chunk(call_part("{}", index=0, id="a", name=name)))


def test_extra_fields_are_passed_on_and_never_replace_our_own() -> None:
    extra: dict[str, JsonValue] = {"seed": 1, "model": "x", "messages": [], "stream": False, "n": 9, "tools": [1]}
    extra |= {"temperature": 2, "max_tokens": 5}
    call = ModelCall((user("x"),), options=ChatOptions(extra=extra, temperature=0.5, stop=("a",)))
    body = build_body(call)
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 1,
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ["a"],
    }


def test_options_of_tools_are_sent_only_with_tools() -> None:
    options = ChatOptions(tool_choice="required", parallel_tool_calls=False, response_format={"type": "json_object"})
    body = build_body(ModelCall((user("x"),), (TOOL,), options))
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert body["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}}
    ]
    without = build_body(ModelCall((user("x"),), (), options))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & without.keys()
    assert without["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("kind", "url", "name"),
    [
        (ProviderKind.OPENAI, None, "max_completion_tokens"),
        (ProviderKind.OPENAI, "https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
        (ProviderKind.OPENAI, "https://vllm.example.com/v1", "max_tokens"),
        (ProviderKind.OLLAMA, None, "max_tokens"),
    ],
)
def test_the_bound_on_tokens_has_the_name_that_the_server_knows(kind: ProviderKind, url: str | None, name: str) -> None:
    body = build_body(ModelCall((user("x"),), options=ChatOptions(max_completion_tokens=7)), kind=kind, url=url)
    assert {key: value for key, value in body.items() if "tokens" in key} == {name: 7}


def test_a_history_is_sent_so_that_each_server_takes_it() -> None:
    developer = ChatMessage(
        role=ChatRole.DEVELOPER, content=({"type": "text", "text": "a"}, {"type": "text", "text": "b"})
    )
    picture: tuple[JsonValue, ...] = ({"type": "image_url", "image_url": {"url": "https://e.org/a.png"}},)
    history = (developer, user(picture), calling("no such/tool", "{bad"), result("error"))
    messages = build_body(ModelCall(history))["messages"]
    assert messages == [
        {"role": "system", "content": "a\nb"},
        {"role": "user", "content": list(picture)},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "no_such_tool", "arguments": '{"arguments":"{bad"}'},
                }
            ],
        },
        {"role": "tool", "content": "error", "tool_call_id": "call_1"},
    ]


def test_thoughts_and_signatures_of_calls_go_back_to_the_model_that_had_them_and_to_no_other() -> None:
    part = {"id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": "signed"}}
    thoughts = [chunk({"reasoning_content": "I "}), chunk({"reasoning_content": "see"})]
    _, answer = read_stream(OpenAiReader(MODEL), [*thoughts, chunk({"tool_calls": [part]}), STOP])  # type: ignore[list-item]
    (part_read,) = answer.message.tool_calls
    renamed = answer.message.model_copy(update={"tool_calls": (part_read.model_copy(update={"id": "z"}),)})
    call = ModelCall((user("x"), renamed, result("1", "z")))
    messages: Any = build_body(call)["messages"]
    sent = messages[1]
    assert sent["reasoning_content"] == "I see"
    assert sent["tool_calls"][0]["extra_content"] == {"google": "signed"}
    messages = build_body(call, name="other")["messages"]
    other = messages[1]
    assert not {"reasoning_content", "upstream"} & other.keys()
    assert "extra_content" not in other["tool_calls"][0]


@pytest.mark.parametrize(
    ("kind", "url", "path", "expected"),
    [
        (ProviderKind.OPENAI, None, None, "https://api.openai.com/v1/chat/completions"),
        (ProviderKind.OPENAI, "http://h:1/x", "/y", "http://h:1/x/y"),
        (ProviderKind.OLLAMA, None, None, "http://127.0.0.1:11434/v1/chat/completions"),
        (ProviderKind.OLLAMA, "http://h:1/v1", None, "http://h:1/v1/chat/completions"),
        (ProviderKind.GEMINI, None, None, "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"),
    ],
)
def test_each_kind_has_its_address(kind: ProviderKind, url: str | None, path: str | None, expected: str) -> None:
    request = OPENAI_WIRE.build_request(make_chat_model(kind, url, api_path=path), ModelCall((user("x"),)))
    assert str(request.url) == expected


def test_an_invalid_address_is_a_failure_of_the_provider() -> None:
    with pytest.raises(ProviderFailedError):
        OPENAI_WIRE.build_request(make_chat_model(url="http://h:99999"), ModelCall((system("x"),)))
