"""`skillbus chat`: one turn, and conversations."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from skillbus.cli.chat.conversation import hold_conversation
from skillbus.cli.chat.prompt import read_question
from skillbus.cli.chat.turn import ChatSettings
from skillbus.cli.chat.view import TurnView, format_called, format_calling
from skillbus.cli.client.connection import Remote, open_connection
from skillbus.cli.output import CommandOutput
from skillbus.cli.session import Session
from skillbus.contracts.agent.chat import CalledTool
from skillbus.contracts.chat_http import ChatChunk, SkillbusChatOptions

from .conftest import CommandLine
from .fake_server import Json
from .fake_tools import FakeTools

QUESTION = "What is 17 * 23?"
CALL: Json = {"call_id": "c1", "id": "builtin:calculate", "arguments": {"expression": "17 * 23"}}
DONE = "data: [DONE]\n\n"
ENDED: Json = {
    "turn_id": "0" * 32,
    "provider": "scripted",
    "model": "small",
    "disclosure": {"shown_tools": 11, "shown_tokens": 200, "all_tools": 5511, "all_tokens": 10_000},
    "citations": [{"label": "K-1 v1", "item_id": "1"}, {"label": "K-x v9"}],
    "steps": 2,
    "tool_calls": 1,
}
USAGE: Json = {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234}
COMPLETION: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "small",
    "created": 1,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "391"}, "finish_reason": "stop"}],
    "usage": USAGE | {"prompt_tokens_details": {"cached_tokens": 7}},
    "skillbus": ENDED,
}


def chunk(text: str | None = None, finish: str | None = None, **more: object) -> Json:
    delta = {} if text is None else {"content": text}
    return {"id": "1", "model": "auto", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def event(kind: str, **more: object) -> Json:
    return chunk(skillbus={"kind": kind, "call": CALL | more})


def encode(*chunks: Json) -> str:
    return "".join(f"data: {json.dumps(one)}\n\n" for one in chunks)


def answer(*chunks: Json, finish: str = "stop") -> httpx.Response:
    usage: Json = {"id": "1", "model": "auto", "choices": [], "usage": USAGE}
    text = encode(*chunks, chunk(finish=finish, skillbus=ENDED), usage)
    return httpx.Response(200, text=text + DONE, headers={"Content-Type": "text/event-stream"})


def refusal(status: int, code: str, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message, "type": "server_error", "code": code}})


TURN = (
    chunk("Let me see."),
    event("calling"),
    event("called", text="391\nand more", duration_ms=2.4),
    chunk("\n\nIt is "),
    chunk("391."),
)


@pytest.fixture
def api() -> FakeTools:
    return FakeTools(answers={"completions": answer(*TURN)})


def test_a_turn_has_its_text_on_stdout_and_its_calls_and_summary_on_stderr(
    skillbus: CommandLine, api: FakeTools
) -> None:
    result = skillbus("chat", QUESTION, "--project", "p", externals=api.externals())
    assert (result.exit_code, result.stdout) == (0, "Let me see.\n\nIt is 391.\n")
    took = "2 steps, 1 tool call, 1,234 tokens (1,200 in, 34 out)"
    disclosed = "11 of 5,511 tools shown, 9,800 tokens saved (98% of all definitions)"
    assert result.stderr.splitlines() == [
        'calls builtin:calculate expression="17 * 23"',
        "builtin:calculate in 2 ms: 391",
        f"{took}; {disclosed}; cited but not given: K-x v9; scripted/small",
    ]
    assert api.requests[0][:2] == ("POST", "/v1/chat/completions")
    assert api.queries[0]["project"] == "p"
    assert api.body() == {
        "model": "auto",
        "messages": [{"role": "user", "content": QUESTION}],
        "metadata": {"skillbus": {"events": True, "approvals": "refuse"}},
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_whole_reply_is_one_document(skillbus: CommandLine, api: FakeTools) -> None:
    api.answers["completions"] = httpx.Response(200, json=COMPLETION)
    result = skillbus("chat", QUESTION, "--json", externals=api.externals())
    assert (result.exit_code, json.loads(result.stdout), result.stderr) == (0, COMPLETION, "")
    assert "stream" not in api.body()
    assert "metadata" not in api.body()


def test_options_go_with_the_question(skillbus: CommandLine, api: FakeTools) -> None:
    words = ["--model", "small", "--knowledge", "/api/live/*", "--budget", "500", "--system", "Be short.", "--no-tools"]
    words += ["--tool", "builtin:calculate", "--tool", "mcp:files/read"]
    result = skillbus("chat", "-", *words, stdin="Which header?\n", externals=api.externals())
    assert result.exit_code == 0
    body = api.body()
    assert body["model"] == "small"
    assert body["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Which header?\n"},
    ]
    assert body["metadata"] == {
        "skillbus": {
            "disclose": False,
            "tools": ["builtin:calculate", "mcp:files/read"],
            "knowledge": {"scope": "/api/live/*", "budget": 500},
            "events": True,
            "approvals": "refuse",
        }
    }


def test_what_is_piped_in_is_one_question(skillbus: CommandLine, api: FakeTools) -> None:
    result = skillbus("chat", stdin="one\n\ntwo", externals=api.externals())
    assert result.exit_code == 0
    assert api.body()["messages"] == [{"role": "user", "content": "one\n\ntwo"}]
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("words", "stdin", "names"),
    [
        (["hello", "--budget", "5"], None, "--knowledge"),
        (["hello", "--knowledge", "/".join("abcdefghijklmnopqrst")], None, "--knowledge"),
        (["hello", "--tool", ""], None, "--tool"),
        (["  "], None, "QUESTION"),
        ([], " \n", "QUESTION"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(
    skillbus: CommandLine, api: FakeTools, words: list[str], stdin: str | None, names: str
) -> None:
    result = skillbus("chat", *words, stdin=stdin, externals=api.externals())
    assert result.exit_code == 2
    assert names in result.stderr
    assert api.requests == []


@pytest.mark.parametrize("as_json", [False, True])
def test_a_refusal_is_told_with_its_reason_and_the_next_step(
    skillbus: CommandLine, api: FakeTools, as_json: bool
) -> None:
    reason = "no chat model is registered; register one with `skillbus models add PROVIDER NAME --chat`"
    api.answers["completions"] = refusal(503, "model_unavailable", reason)
    result = skillbus("chat", QUESTION, *(["--json"] if as_json else []), externals=api.externals())
    assert result.exit_code == 1
    assert reason in (json.loads(result.stdout)["error"]["detail"] if as_json else result.stderr)
    assert (result.stderr if as_json else result.stdout) == ""
    assert "No model is available" in result.output


def test_a_turn_that_fails_in_the_middle_keeps_its_text_and_exits_with_1(skillbus: CommandLine, api: FakeTools) -> None:
    error: Json = {"error": {"message": "the model refuses", "type": "server_error", "code": "unavailable"}}
    text = encode(chunk("half"))
    api.answers["completions"] = httpx.Response(200, text=text + f"data: {json.dumps(error)}\n\n".replace(": {", ":{"))
    result = skillbus("chat", QUESTION, externals=api.externals())
    assert (result.exit_code, result.stdout) == (1, "half\n")
    assert "the model refuses" in result.stderr
    assert "HTTP 200" not in result.stderr
    api.answers["completions"] = httpx.Response(200, text=text)
    cut = skillbus("chat", QUESTION, externals=api.externals())
    assert (cut.exit_code, cut.stdout) == (1, "half\n")
    assert "ended before the answer was complete" in cut.stderr


def test_a_server_that_is_away_is_told_in_its_own_exit_code(skillbus: CommandLine, api: FakeTools) -> None:
    def refuse() -> httpx.Response:
        raise httpx.ConnectError("refused")

    api.answer_next = refuse
    result = skillbus("chat", QUESTION, externals=api.externals())
    assert result.exit_code == 3
    assert "skillbus up" in result.stderr


class OpenStream(httpx.AsyncByteStream):
    """A turn that says something and then goes on until its caller leaves."""

    def __init__(self, when_begun: Callable[[], None]) -> None:
        self.closed = False
        self._when_begun = when_begun

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield encode(chunk("Once")).encode()
        self._when_begun()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_closes_the_stream_of_a_turn(skillbus: CommandLine, api: FakeTools) -> None:
    stream = OpenStream(press_ctrl_c)
    api.answers["completions"] = httpx.Response(200, stream=stream)
    result = skillbus("chat", QUESTION, externals=api.externals())
    assert (result.exit_code, result.stdout) == (1, "Once\n")
    assert stream.closed
    assert "cancelled" in result.stderr


def hold(
    api: FakeTools,
    capsys: pytest.CaptureFixture[str],
    typed: Sequence[str | type[BaseException]],
    *,
    asks_person: bool = False,
) -> str:
    """Hold a conversation, and return all that was shown."""
    left: Iterator[str | type[BaseException]] = iter([*typed, EOFError])

    def read_next() -> str:
        one = next(left)
        if isinstance(one, str):
            return one
        raise one

    async def run() -> None:
        externals = api.externals()
        output = CommandOutput(as_json=False, out=Console(width=80), err=Console(stderr=True, width=80))
        async with open_connection(Remote("http://127.0.0.1:1"), externals.transport) as connection:
            settings = ChatSettings("auto", None, SkillbusChatOptions(), asks_person)
            await hold_conversation(Session(output, connection, None, Path()), settings, read_next)

    asyncio.run(run())
    return "".join(capsys.readouterr())


def messages(api: FakeTools, number: int) -> list[tuple[str, str]]:
    body = json.loads(api.requests[number][2])
    return [(message["role"], message["content"]) for message in body["messages"]]


def test_a_conversation_keeps_its_messages_until_a_new_one_begins(
    api: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ("user", "first"), ("assistant", "Let me see.\n\nIt is 391.")
    shown = hold(api, capsys, ["first", "", KeyboardInterrupt, "/what", "second", "/new", "third\nline", "/quit", "no"])
    assert [messages(api, number) for number in range(len(api.requests))] == [
        [("user", "first")],
        [*first, ("user", "second")],
        [("user", "third\nline")],
    ]
    assert "/what is no command" in shown


def test_a_turn_that_fails_leaves_the_conversation_as_it_was(
    api: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([refusal(429, "rate_limit_exceeded", "too many"), answer(chunk("yes"))])
    api.answer_next = lambda: next(answers)
    assert "too many" in hold(api, capsys, ["first", "second"])
    assert messages(api, 1) == [("user", "second")]


def test_ctrl_c_cancels_each_turn_and_the_conversation_goes_on_with_what_was_said(
    api: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = [OpenStream(press_ctrl_c), OpenStream(press_ctrl_c)]
    answers = iter([*(httpx.Response(200, stream=stream) for stream in streams), answer(chunk("yes"))])
    api.answer_next = lambda: next(answers)
    before = signal.getsignal(signal.SIGINT)
    shown = hold(api, capsys, ["first", "shorter", "third"])
    assert [stream.closed for stream in streams] == [True, True]
    assert shown.count("The turn is cancelled.") == 2
    said = [("user", "first"), ("assistant", "Once"), ("user", "shorter"), ("assistant", "Once"), ("user", "third")]
    assert messages(api, 2) == said
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_pasted_is_one_question(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "dumb")
    keyboard, terminal = os.openpty()
    with closing(os.fdopen(keyboard, "wb", buffering=0)) as typing, closing(os.fdopen(terminal)) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        typing.write(b"one\n\n  two\n")
        assert read_question() == "one\n\n  two"
        typing.write(b"next\n")
        assert read_question() == "next"
        typing.write(b"\x04")  # Ctrl-D
        with pytest.raises(EOFError):
            read_question()
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("> ")) == ("", 3)


APPROVAL: Json = {
    "call_id": "c1",
    "id": "mcp:files/rm",
    "arguments": {"path": "/tmp/a  b"},
    "reason": "an operator requires it",
    "expires_at": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("typed", "approved"), [("y", True), ("Yes\n", True), ("", False), ("no", False), (EOFError, False)]
)
def test_a_call_that_waits_is_shown_whole_and_answered_at_the_terminal(
    api: FakeTools,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str | type[EOFError],
    approved: bool,
) -> None:
    asked = list[str]()

    def read(question: str) -> str:
        asked.append(question)
        if isinstance(typed, str):
            return typed
        raise typed

    waiting = chunk(skillbus={"kind": "approval_required", "approval": APPROVAL})
    api.answers["completions"] = answer(waiting | {"id": "chatcmpl-" + "0" * 32}, *TURN)
    taken: Json = {"turn_id": "0" * 32, "decisions": [{"call_id": "c1", "taken": True}]}
    api.answers[f"POST /v1/chat/runs/{'0' * 32}/approve"] = taken
    monkeypatch.setattr("skillbus.cli.chat.turn.read_answer", read)
    hold(api, capsys, ["first"], asks_person=True)
    assert asked == [
        'Call mcp:files/rm with {"path": "/tmp/a  b"}? It needs an approval, as an operator requires it. [y/N] '
    ]
    assert json.loads(api.requests[0][2])["metadata"]["skillbus"]["approvals"] == "wait"
    assert api.body() == {"decisions": [{"call_id": "c1", "approved": approved}]}


def test_on_a_terminal_lines_about_calls_stand_between_the_text_and_nothing_controls_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Console(force_terminal=True, width=40, color_system=None)
    view = TurnView(CommandOutput(as_json=False, out=terminal, err=terminal))
    long = event("calling", arguments={"text": "x" * 500, "more": [1]})
    for one in (*TURN[:1], long, *TURN[2:], chunk(" \x1b[2J")):
        view.show_chunk(ChatChunk.model_validate(one))
    view.end_line()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Let me see."
    assert lines[1].startswith('calls builtin:calculate text="xxx')
    assert len(lines[1]) == 40
    assert lines[2:] == ["builtin:calculate in 2 ms: 391", "It is 391. �[2J"]
    assert view.text.endswith(" \x1b[2J")


def test_a_call_that_failed_or_looks_like_instructions_says_so() -> None:
    call = CalledTool(call_id="c", id="skill:plot", action="draw", arguments={"n": 1, "s": "a\nb"}, duration_ms=12)
    assert format_calling(call, 80) == 'calls skill:plot draw n=1 s="a\\nb"'
    assert format_called(call, 80) == "skill:plot in 12 ms: no text"
    failed = call.model_copy(update={"is_error": True, "text": "\nno such\x07 file\n", "findings": ("orders",)})
    assert format_called(failed, 80) == "skill:plot failed in 12 ms (looks like instructions): no such� file"


def test_calls_of_a_program_stand_indented_above_its_end(skillbus: CommandLine, api: FakeTools) -> None:
    inner = {"call_id": "i", "program_call_id": "c", "duration_ms": 2, "text": "391", "arguments": {"n": 17}}
    api.answers["completions"] = answer(
        event("calling", id="builtin:run_code", arguments={"code": "…"}),
        event("called", **inner),
        event("called", **inner | {"is_error": True, "text": "Not done:\nit is disabled"}),
        event("called", id="builtin:run_code", program_calls=2, text="782", duration_ms=40),
        chunk("It is 782."),
    )
    lines = skillbus("chat", QUESTION, externals=api.externals()).stderr.splitlines()
    assert lines[:4] == [
        'calls builtin:run_code code="…"',
        "  builtin:calculate n=17 in 2 ms: 391",
        "  builtin:calculate n=17 failed in 2 ms: Not done:",
        "builtin:run_code in 40 ms with 2 calls: 782",
    ]


def test_an_answer_that_was_cut_says_so(skillbus: CommandLine, api: FakeTools) -> None:
    api.answers["completions"] = answer(chunk("It is"), finish="length")
    result = skillbus("chat", QUESTION, externals=api.externals())
    assert "cut at the model's limit" in result.stderr
