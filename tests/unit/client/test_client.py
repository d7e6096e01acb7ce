"""Both clients over a transport in memory: what they send, what they return, and what they raise."""

import asyncio
import inspect
import json
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, assert_type

import httpx
import pytest

from skillbus.client import ApiError, AsyncSkillbus, Skillbus
from skillbus.client.call import Call, RetryPlan
from skillbus.client.connection import _http_options
from skillbus.client.errors import (
    ERRORS,
    NoReplyError,
    NotFoundError,
    ServerUnreachableError,
    SkillbusError,
    UnexpectedReplyError,
    WrongArgumentError,
    parse_error,
)
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode
from skillbus.contracts.http import RunBegun, RunPrinted, RunReply, ToolSearchReply
from skillbus.contracts.indexer.index_switch import IndexesListed
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.sandbox.run_history import RunRecord

KEY = "a-key-that-nobody-sees"
FOUND = {"results": [], "took_ms": 1.0}
RUN = {
    "run_id": "0" * 32,
    "status": "ok",
    "exit_code": 0,
    "duration_ms": 1.0,
    "truncated": False,
    "isolation": "a test",
    "stdout": "hello",
    "stderr": "",
}
RECORD = {
    "run_id": "0" * 32,
    "skill": "greet",
    "content_digest": "0" * 64,
    "action": "run",
    "state": "ok",
    "began_at": "2026-01-01T00:00:00Z",
    "ends_by": "2026-01-01T00:00:01Z",
    "limits": dict.fromkeys(
        ("wall_s", "cpu_s", "memory_bytes", "processes", "output_bytes", "artifacts", "artifacts_bytes", "work_bytes"),
        1,
    ),
}


def problem(code: str, *, retryable: bool = False, **details: object) -> dict[str, object]:
    return {"title": "t", "detail": "d", "code": code, "retryable": retryable, "details": details}


@dataclass
class Server:
    """Answers each request with the next reply, an exception is raised, and keeps the requests."""

    replies: list[httpx.Response | httpx.TransportError] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, httpx.TransportError):
            raise reply
        return reply

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


@pytest.fixture
def server() -> Server:
    return Server()


Send = Callable[..., Any]
Options = dict[str, Any]


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest, server: Server) -> Send:
    """A function that calls an operation by name, on the client of the kind, and returns its result.

    The parts of a stream are returned as a list.
    """

    async def send_async(
        name: str, args: tuple[object, ...], kwargs: dict[str, object], options: dict[str, Any]
    ) -> Any:
        transport = httpx.MockTransport(server.answer)
        async with AsyncSkillbus("http://server.test", KEY, transport=transport, **options) as client:
            result = getattr(client, name)(*args, **kwargs)
            if inspect.isawaitable(result):
                return await result
            async with result as parts:
                return [part async for part in parts]

    def send_sync(name: str, args: tuple[object, ...], kwargs: dict[str, object], options: Options) -> Any:
        with Skillbus("http://server.test", KEY, transport=httpx.MockTransport(server.answer), **options) as client:
            result = getattr(client, name)(*args, **kwargs)
            if not hasattr(result, "__enter__"):
                return result
            with result as parts:
                return list(parts)

    def call(name: str, /, *args: object, options: Options | None = None, **kwargs: object) -> Any:
        if request.param == "async":
            return asyncio.run(send_async(name, args, kwargs, options or {}))
        return send_sync(name, args, kwargs, options or {})

    return call


def test_a_request_has_the_given_fields_only_and_the_key(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(200, json=FOUND)]
    found = send("search_tools", query="提交代码", limit=3)
    (request,) = server.requests
    assert isinstance(found, ToolSearchReply)
    assert (request.method, str(request.url)) == ("POST", "http://server.test/api/tools/search")
    assert server.body == {"query": "提交代码", "limit": 3}
    assert request.headers["Authorization"] == f"Bearer {KEY}"


def test_the_project_of_the_client_is_that_of_requests_which_name_none(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(200, json=FOUND) for _ in range(2)]
    send("search_tools", query="x", options={"project": "mine"})
    assert server.body["project"] == "mine"
    send("search_tools", query="x", project="other", options={"project": "mine"})
    assert server.body["project"] == "other"


def test_ids_are_quoted_and_lists_repeated(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(404, json=problem("not_found")) for _ in range(2)]
    with pytest.raises(NotFoundError):
        send("get_tool", id="mcp:files/../read file", project="mine")
    assert server.requests[-1].url.raw_path == b"/api/tools/mcp%3Afiles%2F%2E%2E%2Fread%20file?project=mine"
    with pytest.raises(NotFoundError):
        send("list_knowledge", types=("business_rule",), tags=("a", "b"))
    assert list(server.requests[-1].url.params.multi_items()) == [
        ("type", "business_rule"),
        ("tags", "a"),
        ("tags", "b"),
    ]


def test_a_version_and_an_actor_are_headers(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(204)]
    assert send("archive_knowledge", id="0" * 32, expected_version=3, actor="林") is None
    headers = server.requests[-1].headers
    assert headers["If-Match"] == '"3"'
    assert (b"Skillbus-Actor", "林".encode()) in headers.raw


def test_none_is_sent_where_it_clears_a_field(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(404, json=problem("not_found"))]
    with pytest.raises(NotFoundError):
        send("update_knowledge", id="0" * 32, title="new", valid_to=None)
    assert server.body == {"title": "new", "valid_to": None}


def test_rows_of_an_import_are_lines(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(200, json={"total": 2, "counts": {}, "indexed": True})]
    send("put_tools", [{"id": "a"}, {"id": "b"}], source="team")
    (request,) = server.requests
    assert request.content == b'{"id": "a"}\n{"id": "b"}\n'
    assert request.headers["Content-Type"] == "application/x-ndjson"
    assert request.url.params["source"] == "team"


def test_files_of_a_run_are_sent_in_base64(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(200, json=RUN)]
    reply = send("run_skill", "count-words", args={"path": "a.txt"}, files={"a.txt": b"one two"})
    assert reply.stdout == "hello"
    assert server.body == {"args": {"path": "a.txt"}, "files": {"a.txt": "b25lIHR3bw=="}}


def test_a_followed_run_yields_its_events(server: Server, send: Send) -> None:
    printed = {"number": 1, "stream": "stdout", "text": "hello"}
    events = (("begun", {"run_id": "0" * 32}), ("output", printed), ("reply", RUN))
    text = ": still there\n\n".join(f"event: {name}\ndata: {json.dumps(body)}\n\n" for name, body in events)
    server.replies = [httpx.Response(200, text=text)]
    parts = send("follow_skill", "greet")
    assert [type(part) for part in parts] == [RunBegun, RunPrinted, RunReply]
    assert server.requests[-1].url.params["stream"] == "true"


def test_a_followed_run_that_fails_or_breaks_off_is_an_error(server: Server, send: Send) -> None:
    failed = json.dumps(problem("overloaded"))
    server.replies = [
        httpx.Response(200, text=f"event: error\ndata: {failed}\n\n"),
        httpx.Response(200, text='event: begun\ndata: {"run_id": "0"}\n\n'),
    ]
    with pytest.raises(ApiError, match="overloaded"):
        send("follow_skill", "greet")
    with pytest.raises(UnexpectedReplyError, match="without a reply"):
        send("follow_skill", "greet")


def test_a_watched_run_yields_its_records_and_output(server: Server, send: Send) -> None:
    running = RECORD | {"state": "running"}
    printed = {"number": 1, "stream": "stdout", "text": "hello"}
    events = (("running", running), ("output", printed), ("ended", RECORD))
    blocks = [f"event: {name}\ndata: {json.dumps(body)}\n\n" for name, body in events]
    server.replies = [
        httpx.Response(200, text=": still there\n\n".join(blocks)),
        httpx.Response(200, text=blocks[0]),
        httpx.Response(200, text=f"event: error\ndata: {json.dumps(problem('unavailable'))}\n\n"),
    ]
    parts = send("watch_run", "0" * 32, project="team")
    assert [type(part) for part in parts] == [RunRecord, RunPrinted, RunRecord]
    assert server.requests[-1].url.params["project"] == "team"
    with pytest.raises(UnexpectedReplyError, match="before the run"):
        send("watch_run", "0" * 32)
    with pytest.raises(ApiError, match="unavailable"):
        send("watch_run", "0" * 32)


def test_followed_indexes_are_yielded_to_the_last_state(server: Server, send: Send) -> None:
    block = 'event: {name}\ndata: {{"indexes": []}}\n\n'
    events = [block.format(name=name) for name in ("progress", "ended")]
    server.replies = [httpx.Response(200, text="".join(events)), httpx.Response(200, text=events[0])]
    assert send("follow_indexes") == [IndexesListed(indexes=())] * 2
    with pytest.raises(UnexpectedReplyError, match="before the last state"):
        send("follow_indexes")


def test_wrong_arguments_are_refused_before_anything_is_sent(server: Server, send: Send) -> None:
    with pytest.raises(TypeError, match="'limt': do you mean 'limit'"):
        send("search_tools", query="x", limt=3)
    with pytest.raises(WrongArgumentError, match=r"^search_tools\(\): limit: must be at least 1$"):
        send("search_tools", query="x", limit=0)
    assert server.requests == []


@pytest.mark.parametrize(
    ("method", "args", "says"),
    [
        ("search_tools", ("commit",), "search_tools(query=…)"),
        ("run_skill", ("greet", "run"), "run_skill(action=…)"),
        ("resolve_command", ("打开灯",), "resolve_command(text=…, home=…)"),
        ("search_tools", (), "missing a required argument: 'query'"),
        ("run_skill", (), "missing a required argument: 'name'"),
    ],
)
def test_a_missing_or_positional_argument_is_refused_with_its_name(
    server: Server, send: Send, method: str, args: tuple[object, ...], says: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        send(method, *args)
    assert server.requests == []


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_its_exception(code: ErrorCode) -> None:
    error = parse_error(json.dumps(problem(code, reason="r")).encode(), ERROR_CLASSES[code].status, "http://x")
    assert type(error) is ERRORS[code]
    assert (error.code, error.detail, error.details) == (code, "d", {"reason": "r"})


def test_errors_of_the_openai_form_and_new_codes_are_understood() -> None:
    openai = {"error": {"message": "m", "type": "t", "code": "invalid_api_key"}}
    unauthorized = parse_error(json.dumps(openai).encode(), 401, "http://x")
    new = parse_error(json.dumps(problem("new_code")).encode(), 400, "http://x")
    assert type(unauthorized) is ERRORS[ErrorCode.UNAUTHORIZED]
    assert type(new) is ApiError
    assert new.code == "new_code"


def test_a_reply_of_another_program_is_an_error_of_its_own(server: Server, send: Send) -> None:
    server.replies = [httpx.Response(200, text="<html>"), httpx.Response(502, text="Bad Gateway")]
    for _ in range(2):
        with pytest.raises(UnexpectedReplyError, match="address of a skillbus"):
            send("get_skill", name="greet")


def test_an_idempotent_call_is_sent_again_after_its_reply_was_lost(server: Server, send: Send) -> None:
    broken = httpx.ReadError("broken")
    server.replies = [broken, httpx.Response(200, json=FOUND)]
    assert send("search_tools", query="x") == ToolSearchReply.model_validate(FOUND)
    server.replies = [broken]
    with pytest.raises(NoReplyError):
        send("run_skill", "greet")
    assert server.replies == []


def test_a_written_item_has_a_key_that_makes_its_repetition_safe(server: Server, send: Send) -> None:
    server.replies = [httpx.ReadError("broken"), httpx.Response(409, json=problem("conflict"))]
    with pytest.raises(ApiError):
        send("create_knowledge", type="business_rule", title="t", content="c")
    keys = [json.loads(request.content)["idempotency_key"] for request in server.requests]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_the_key_is_in_no_error_and_no_representation(server: Server, send: Send) -> None:
    server.replies = [httpx.ConnectError("refused")]
    with pytest.raises(ServerUnreachableError) as unreachable:
        send("get_status", options={"retries": 0})
    assert KEY not in f"{unreachable.value!r}{unreachable.value}"


IDEMPOTENT, OTHER = Call("GET", "/", is_idempotent=True), Call("POST", "/")
OVERLOADED = parse_error(json.dumps(problem("overloaded", retryable=True, retry_after_s=7)).encode(), 429, "")
CONFLICT = parse_error(json.dumps(problem("conflict", retryable=True)).encode(), 409, "")


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        (IDEMPOTENT, OVERLOADED, True),
        (IDEMPOTENT, CONFLICT, False),
        (IDEMPOTENT, NoReplyError("broken"), True),
        (IDEMPOTENT, NoReplyError("", timeout_s=60), False),
        (OTHER, OVERLOADED, False),
        (OTHER, NoReplyError("broken"), False),
        (OTHER, ServerUnreachableError("http://x", "refused"), True),
    ],
)
def test_what_is_sent_again(call: Call, error: SkillbusError, expected: bool) -> None:
    assert (RetryPlan(call, 1).next_pause_s(error) is not None) == expected
    assert RetryPlan(call, 0).next_pause_s(error) is None


def test_pauses_double_and_follow_the_server() -> None:
    plan = RetryPlan(IDEMPOTENT, 20)
    pauses = [plan.next_pause_s(NoReplyError("broken")) or 0 for _ in range(20)]
    assert 0 < pauses[0] <= 0.2
    assert 15 <= pauses[-1] <= 30
    assert RetryPlan(IDEMPOTENT, 1).next_pause_s(OVERLOADED) == 7


def check_types(client: Skillbus) -> None:
    """Never called: type checkers read it."""
    assert_type(client.search_tools(query="x"), ToolSearchReply)
    assert_type(client.get_skill(name="x"), Skill)
    with client.follow_skill("x", args={"a": 1}) as events:
        assert_type(events, Iterator[RunBegun | RunPrinted | RunReply])


async def check_types_async(client: AsyncSkillbus) -> None:
    assert_type(await client.search_tools(query="x"), ToolSearchReply)
    assert_type(await client.get_artifact("0" * 32, "a.txt"), bytes)


@pytest.mark.parametrize(
    ("url", "trusts_authorities"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://[::1]", False),
        ("https://localhost", True),
        ("http://example.com", True),
    ],
)
def test_certificates_are_loaded_unless_the_server_speaks_http_on_loopback(url: str, trusts_authorities: bool) -> None:
    verify = _http_options(url, None)["verify"]
    assert (verify is True) is trusts_authorities
    if isinstance(verify, ssl.SSLContext):
        assert verify.cert_store_stats()["x509_ca"] == 0
        assert verify.verify_mode is ssl.CERT_REQUIRED
