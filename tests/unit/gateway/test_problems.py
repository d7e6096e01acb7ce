import inspect
import time

import pytest
import structlog

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS

from .fakes import KEY, World

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_every_error_of_the_contract_becomes_a_problem_document(code: ErrorCode) -> None:
    world = World()
    world.caller.on(SEARCH_TOOLS, lambda _: RequestError(code, "What to do.", details={"where": "here"}))
    async with world.client() as client:
        answer = await client.post("/api/tools/search", json={"query": "x"})

    assert answer.status_code == ERROR_CLASSES[code].status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json() == {
        "type": f"urn:skillbus:error:{code}",
        "title": ERROR_CLASSES[code].title,
        "status": ERROR_CLASSES[code].status,
        "detail": "What to do.",
        "instance": "/api/tools/search",
        "code": code,
        "retryable": ERROR_CLASSES[code].retryable,
        "details": {"where": "here"},
    }
    assert ("Retry-After" in answer.headers) == (answer.status_code in {429, 503})


async def test_an_error_that_nobody_foresaw_tells_the_log_and_not_the_caller() -> None:
    world = World()
    world.caller.on(SEARCH_TOOLS, lambda _: RuntimeError("password=hunter2"))
    with structlog.testing.capture_logs() as logs:
        async with world.client() as client:
            answer = await client.post("/api/tools/search", json={"query": "x"})

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    assert [log["event"] for log in logs] == ["http_request_failed", "http_request"]
    assert logs[0]["exc_info"]


async def test_no_header_with_the_key_is_at_hand_where_an_error_is_logged() -> None:
    world, seen = World(key=KEY), []

    def look_at_callers(_: object) -> Exception:
        frames = inspect.stack()
        seen.extend(str(frame.frame.f_locals.get("scope", {}).get("headers")) for frame in frames)
        return RuntimeError()

    world.caller.on(SEARCH_TOOLS, look_at_callers)
    with structlog.testing.capture_logs():
        async with world.client() as client:
            await client.post("/api/tools/search", json={"query": "x"})
    assert any("content-type" in headers for headers in seen)
    assert not any(KEY in headers for headers in seen)


async def test_an_unknown_path_is_a_problem_document() -> None:
    async with World().client() as client:
        answer = await client.get("/api/nothing/here")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["instance"]) == (404, "not_found", "/api/nothing/here")
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_method_that_a_path_does_not_take_is_a_problem_document() -> None:
    async with World().client() as client:
        answer = await client.put("/api/limits")
    assert (answer.status_code, answer.json()["code"]) == (405, "invalid_request")
    assert answer.json()["title"] == "Method Not Allowed"
    assert answer.headers["Allow"] == "GET"


async def test_a_method_that_a_path_does_not_take_is_told_all_that_it_takes() -> None:
    async with World().client() as client:
        answers = [await client.patch(path) for path in ("/api/knowledge", "/api/knowledge/a")]
    assert [answer.headers["Allow"] for answer in answers] == ["GET, POST", "DELETE, GET, PUT"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": ',
        b'{"query": "\xff\xfe"}',
        b'{"query": "\\ud800"}',
        "帮我提交代码".encode("gbk"),
        b'{"query": "x", "threshold": NaN}',
        b'{"query": "x", "limit": ' + b"9" * 10_000 + b"}",
        b"[" * 100_000,
        b"[]",
        b"null",
        b"",
    ],
)
async def test_a_body_that_is_no_json_object_in_utf8_is_an_invalid_request(body: bytes) -> None:
    async with World().client() as client:
        answer = await client.post("/api/tools/search", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
async def test_json_that_is_sent_as_something_else_is_told_how_to_be_sent(kind: str | None) -> None:
    async with World().client() as client:
        headers = {} if kind is None else {"Content-Type": kind}
        answer = await client.post("/api/tools/search", content=b'{"query": "x"}', headers=headers)
    assert answer.status_code == 400
    assert "Content-Type: application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("query", {"query": ""}),
        ("query", {"query": " \n"}),
        ("query", {"query": "x" * 100_000}),
        ("query", {"query": "a\0b"}),
        ("query", {}),
        ("limit", {"query": "x", "limit": 0}),
        ("limit", {"query": "x", "limit": -1}),
        ("limit", {"query": "x", "limit": 10**9}),
        ("threshold", {"query": "x", "threshold": 2}),
        ("project", {"query": "x", "project": "../other"}),
    ],
)
async def test_a_search_against_the_contract_names_the_field_that_is_wrong(field: str, body: dict[str, object]) -> None:
    world = World()
    async with world.client() as client:
        answer = await client.post("/api/tools/search", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid_request")
    assert [item["field"] for item in problem["details"]["fields"]] == [field]
    assert not world.caller.asked


async def test_an_unknown_tool_type_is_refused_by_the_whitelist() -> None:
    """tool-type.md § 4 安全设计: toolType 值进行白名单校验."""
    async with World().client() as client:
        answer = await client.post("/api/tools/search", json={"query": "x", "tool_types": ["skill", "plugin"]})
    assert answer.status_code == 400
    assert [item["field"] for item in answer.json()["details"]["fields"]] == ["tool_types.1"]


@pytest.mark.parametrize("limit", ["0", "-1", "1000000000", "many"])
async def test_a_page_of_skills_has_bounds(limit: str) -> None:
    async with World().client() as client:
        answer = await client.get("/api/skills", params={"limit": limit})
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "limit")


@pytest.mark.parametrize("path", ["/api/skills/UPPER", "/api/skills/a%00b", "/api/skills/a?project=B%2Fc"])
async def test_a_name_or_project_that_cannot_be_is_an_invalid_request(path: str) -> None:
    async with World().client() as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({"Content-Type": "multipart/form-data"}, b"x"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nnonsense"),
        (
            {"Content-Type": "multipart/form-data; boundary=b"},
            b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
        ),
        ({"Content-Type": "application/zip"}, b"PK"),
        ({}, b""),
    ],
)
async def test_a_broken_form_is_an_invalid_request(headers: dict[str, str], content: bytes) -> None:
    async with World().client() as client:
        answer = await client.post("/api/skills", headers=headers, content=content)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_a_package_sent_as_text_names_the_field() -> None:
    async with World().client() as client:
        answer = await client.post("/api/skills", data={"package": "PK"})
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "package")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"args":{"a":[' + b"1," * 2_000_000 + b"1]}}", "payload_too_large"),
        (b'{"argv":[' + b"[]," * 500_000 + b"[]]}", "invalid_request"),
        (b'{"files":{' + b",".join(b'"%d":1' % number for number in range(300_000)) + b"}}", "invalid_request"),
    ],
    ids=["values", "argv", "files"],
)
async def test_a_body_of_very_many_values_is_refused_at_once(body: bytes, code: str) -> None:
    world = World()
    began = time.process_time()  # not the clock: other tests may have the machine
    async with world.client() as client:
        answer = await client.post("/api/skills/a/run", content=body, headers=JSON)
    assert answer.json()["code"] == code
    assert len(answer.content) < 10_000
    assert time.process_time() - began < 3
