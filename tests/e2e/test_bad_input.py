"""Mistakes of callers, over HTTP and over raw NATS: each gets an error that says what is wrong, and nothing breaks."""

import io
import json
import stat
import zipfile
from collections.abc import AsyncGenerator
from typing import Final

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from pydantic import JsonValue

from skillbus.contracts.indexer.skills import INSTALL_SKILL, UPDATE_SKILL
from skillbus.contracts.indexer.tools import PUT_TOOLS
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL

from .conftest import Json, System, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
_SCHEMA = '{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skills(system: System) -> None:
    """One that adds, and one that is instructions only."""
    add = skill_package("add", "Adds numbers.", {"scripts/main.py": "import sys; print(sys.argv)\n"})
    typed = _with_frontmatter(
        add,
        f"metadata:\n  skillbus-entry: scripts/main.py\n  skillbus-args: argv\n  skillbus-input-schema: '{_SCHEMA}'\n",
    )
    for package in (typed, skill_package("read-me", "Only instructions.", {"notes.md": "Read this.\n"})):
        answer = await system.install(package)
        assert answer.status_code == 201, answer.text


def _with_frontmatter(package: bytes, more: str) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as source, zipfile.ZipFile(into, "w") as target:
        for info in source.infolist():
            text = source.read(info).decode()
            target.writestr(info.filename, text.replace("\n---\n", f"\n{more}---\n", 1))
    return into.getvalue()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(system: System) -> AsyncGenerator[Client]:
    """A plain NATS client, as another language would have it."""
    address = system.standalone.nats.address
    connected = await nats.connect(address.url, token=address.token)
    yield connected
    await connected.close()


async def _ask(client: Client, subject: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Status and code of an error reply; that header and body agree is asserted."""
    message = await client.request(subject, body, timeout=10, headers=headers)
    assert message.headers is not None
    assert "Nats-Service-Error-Code" in message.headers, message.data
    error = json.loads(message.data)["error"]
    assert error["message"]
    assert message.headers["Nats-Service-Error"]
    return int(message.headers["Nats-Service-Error-Code"]), error["code"]


_BAD_SEARCHES: dict[str, bytes] = {
    "empty": b'{"query":""}',
    "blank": b'{"query":" \\n\\t\\u3000 "}',
    "100-kB": json.dumps({"query": "查" * 33_000}).encode(),
    "not-UTF-8": b'{"query":"\xff\xfe\xc3\x28"}',
    "NUL": b'{"query":"a\\u0000b"}',
    "lone-surrogate": b'{"query":"a\\ud800b"}',
    "absent": b"{}",
    "null": b'{"query":null}',
    "number": b'{"query":7}',
    "no-JSON": b"query=x",
    "no-object": b"[]",
    "nothing": b"",
    "too-deep": b'{"query":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "limit-0": b'{"query":"x","limit":0}',
    "limit--1": b'{"query":"x","limit":-1}',
    "limit-10^9": b'{"query":"x","limit":1000000000}',
    "limit-10^400": b'{"query":"x","limit":1' + b"0" * 400 + b"}",
    "limit-1.5": b'{"query":"x","limit":1.5}',
    "limit-text": b'{"query":"x","limit":"many"}',
    "threshold-2": b'{"query":"x","threshold":2}',
    "threshold-NaN": b'{"query":"x","threshold":NaN}',
    "tool-type": b'{"query":"x","tool_types":["plugin"]}',
    "tool-types-text": b'{"query":"x","tool_types":"skill"}',
    "threshold-infinity": b'{"query":"x","threshold":Infinity}',
    "tags": b'{"query":"x","tags":[1]}',
    "tags-10,000": json.dumps({"query": "x", "tags": [f"t{number}" for number in range(10_000)]}).encode(),
    "sources": b'{"query":"x","sources":["a b"]}',
    "quotas-of-a-kind-that-is-none": b'{"query":"x","quotas":{"plugin":1}}',
    "quotas--1": b'{"query":"x","quotas":{"mcp":-1}}',
    "project": b'{"query":"x","project":"../other"}',
    "project-wildcard": b'{"query":"x","project":"*"}',
}
_BAD_OVER_NATS: Final = ("blank", "not-UTF-8", "lone-surrogate", "too-deep", "threshold-NaN")
"""Both transports share the validation; these show that the bus also decodes strictly."""


@pytest.mark.parametrize("body", _BAD_SEARCHES.values(), ids=_BAD_SEARCHES)
async def test_a_bad_search_is_refused_over_http(system: System, body: bytes) -> None:
    answer = await system.http.post("/api/tools/search", content=body, headers={"Content-Type": "application/json"})
    assert problem(answer) == (400, "invalid_request")


@pytest.mark.parametrize("name", _BAD_OVER_NATS)
async def test_a_bad_search_is_refused_over_nats(client: Client, name: str) -> None:
    assert await _ask(client, SEARCH_TOOLS.subject, _BAD_SEARCHES[name]) == (400, "invalid_request")


async def test_a_refusal_names_the_field(system: System) -> None:
    answer = await system.search("x", limit=0, tool_types=["plugin"])
    fields = {field["field"] for field in answer.json()["details"]["fields"]}
    assert fields == {"limit", "tool_types.0"}


@pytest.mark.parametrize(
    "query", ["a" * 8_000, "查" * 8_000, "\u202e\u0301👩‍👩‍👧‍👦", "\ufffe\uffff", "' OR 1=1 --", "%00"]
)
async def test_an_odd_query_is_answered(system: System, query: str) -> None:
    assert (await system.search(query)).status_code == 200


async def test_msgpack_that_is_none_is_refused(client: Client) -> None:
    headers = {"Content-Type": "application/msgpack"}
    assert await _ask(client, SEARCH_TOOLS.subject, b"\xc1\xff", headers) == (400, "invalid_request")


async def test_an_unknown_content_type_is_refused(client: Client) -> None:
    headers = {"Content-Type": "text/xml"}
    assert await _ask(client, SEARCH_TOOLS.subject, b"<query/>", headers) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("deadline", "refused"),
    [("soon", (400, "invalid_request")), ("1", (504, "deadline_exceeded"))],
)
async def test_a_deadline_that_cannot_be_kept_is_refused(
    client: Client, deadline: str, refused: tuple[int, str]
) -> None:
    headers = {"Skillbus-Deadline-Ms": deadline}
    assert await _ask(client, SEARCH_TOOLS.subject, b'{"query":"x"}', headers) == refused


_BAD_RUNS: dict[str, tuple[str, Json, tuple[int, str]]] = {
    "no-such-skill": ("nobody", {}, (404, "skill_not_found")),
    "instructions-only": ("read-me", {}, (409, "no_entry_point")),
    "unknown-action": ("add", {"action": "subtract"}, (404, "unknown_action")),
    "action-elsewhere": ("add", {"action": "../../etc/passwd"}, (404, "unknown_action")),
    "argument-missing": ("add", {"args": {}}, (422, "invalid_arguments")),
    "argument-of-another-type": ("add", {"args": {"x": "one"}}, (422, "invalid_arguments")),
    "argument-too-many": ("add", {"args": {"x": 1, "y": 2}}, (422, "invalid_arguments")),
    "args-and-argv": ("add", {"args": {"x": 1}, "argv": ["1"]}, (400, "invalid_request")),
    "NUL-in-argv": ("add", {"argv": ["a\0b"]}, (422, "invalid_arguments")),
    "argv-too-many": ("add", {"argv": ["x"] * 257}, (400, "invalid_request")),
    "timeout-0": ("add", {"args": {"x": 1}, "timeout_s": 0}, (400, "invalid_request")),
    "timeout--1": ("add", {"args": {"x": 1}, "timeout_s": -1}, (400, "invalid_request")),
    "timeout-10^9": ("add", {"args": {"x": 1}, "timeout_s": 10**9}, (400, "invalid_request")),
}


@pytest.mark.parametrize(("name", "body", "refused"), _BAD_RUNS.values(), ids=_BAD_RUNS)
async def test_a_bad_run_is_refused_over_http(
    system: System, skills: None, name: str, body: Json, refused: tuple[int, str]
) -> None:
    assert problem(await system.run(name, **body)) == refused


@pytest.mark.parametrize("mistake", ["no-such-skill", "unknown-action", "argument-missing", "NUL-in-argv", "timeout-0"])
async def test_a_bad_run_is_refused_over_nats(client: Client, skills: None, mistake: str) -> None:
    name, body, refused = _BAD_RUNS[mistake]
    assert await _ask(client, RUN_SKILL.subject, json.dumps({"name": name, **body}).encode()) == refused


async def test_an_unknown_action_is_answered_with_those_that_there_are(system: System, skills: None) -> None:
    answer = await system.run("add", action="subtract")
    assert answer.json()["details"] == {"actions": ["run"]}


async def test_a_wrong_argument_is_answered_with_its_place(system: System, skills: None) -> None:
    answer = await system.run("add", args={"x": "one"})
    assert answer.json()["details"] == {"path": "$.x"}


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../b", "", "a\0b", "x" * 5000])
async def test_a_file_whose_name_leaves_its_folder_is_refused(system: System, skills: None, name: str) -> None:
    answer = await system.run("add", args={"x": 1}, files={name: "aGk="})
    assert problem(answer) == (400, "invalid_request")


@pytest.mark.parametrize("content", ["not base64!", "aGk", 7, None])
async def test_a_file_that_is_not_base64_is_refused(system: System, skills: None, content: JsonValue) -> None:
    answer = await system.run("add", args={"x": 1}, files={"a.txt": content})
    assert problem(answer) == (400, "invalid_request")


@pytest.mark.parametrize("name", ["No-Such", "a_b", "..", "a%2Fb", "x" * 65, "%00", "*"])
async def test_a_name_that_no_skill_can_have_is_refused(system: System, name: str) -> None:
    answer = await system.http.get(f"/api/skills/{name}")
    assert problem(answer) in [(400, "invalid_request"), (404, "not_found")]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_skill_that_is_not_installed_is_said_to_be_missing(system: System, method: str) -> None:
    answer = await system.http.request(method, "/api/skills/nobody")
    assert problem(answer) == (404, "skill_not_found")


@pytest.mark.parametrize("description", ["   ", "", "a\0b", "x" * 1025, None])
async def test_a_bad_description_is_refused(
    system: System, client: Client, skills: None, description: JsonValue
) -> None:
    answer = await system.http.patch("/api/skills/add", json={"description": description})
    assert problem(answer) == (400, "invalid_request")
    body = json.dumps({"name": "add", "description": description}).encode()
    assert await _ask(client, UPDATE_SKILL.subject, body) == (400, "invalid_request")


async def test_an_upload_over_the_limit_is_refused_while_it_streams(system: System) -> None:
    async def large() -> AsyncGenerator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="package"; filename="p.zip"\r\n\r\n'
        for _ in range(30):
            yield bytes(MIB)

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = await system.http.post("/api/skills", content=large(), headers=headers)
    assert problem(answer) == (413, "payload_too_large")


async def test_an_upload_without_a_package_is_refused(system: System) -> None:
    assert problem(await system.http.post("/api/skills", files={"other": ("p.zip", b"PK")})) == (400, "invalid_request")


async def test_a_package_of_another_digest_is_refused_over_nats(client: Client) -> None:
    body = {"package": {"size_bytes": 2, "sha256": "0" * 64, "inline": "UEs="}}
    assert await _ask(client, INSTALL_SKILL.subject, json.dumps(body).encode()) == (400, "invalid_request")


async def test_a_package_that_is_not_in_the_bucket_is_not_found_over_nats(client: Client) -> None:
    body = {"package": {"size_bytes": 2, "sha256": "0" * 64, "object_name": "incoming/none.zip"}}
    assert await _ask(client, INSTALL_SKILL.subject, json.dumps(body).encode()) == (404, "not_found")


def _archive(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bad/SKILL.md", "---\nname: bad\ndescription: Bad.\n---\n")
        for name, data in entries:
            archive.writestr(name, data)
    return stream.getvalue()


def _link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("bad/link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("package", "reason", "where"),
    [
        (_archive(("../../evil.txt", b"x")), "unsafe_path", "../../evil.txt"),
        (_archive(("/evil.txt", b"x")), "unsafe_path", "/evil.txt"),
        (_archive((_link(), b"/etc/passwd")), "symlink", "bad/link"),
        (_archive(("bad/zeros", bytes(40 * MIB))), "too_large", "bad/zeros"),
        (_archive()[:60], "not_a_zip", ""),
        (b"", "not_a_zip", ""),
    ],
    ids=["climbs", "absolute", "link", "bomb", "cut-off", "empty"],
)
async def test_a_package_that_is_none_is_refused_and_leaves_nothing(
    system: System, skills: None, package: bytes, reason: str, where: str
) -> None:
    before = await system.counts()
    answer = await system.install(package)
    assert problem(answer) == (422, "skill_rejected")
    assert [(error["code"], error["where"]) for error in answer.json()["details"]["errors"]] == [(reason, where)]
    assert await system.trace_of("bad") == []
    assert list((system.data / ".staging").iterdir()) == []
    assert list(system.data.parent.rglob("evil.txt")) == []
    assert await system.counts() == before


_DESCRIPTION: Final = '{"id":"%s","name":"bad","description":"Adds numbers.","metadata":{"value":%s}}'
_UNREADABLE: Final = {"too-deep": "[" * 110 + "]" * 110, "10^400": "9" * 400, "10^4000": "9" * 4_000, "1e999": "1e999"}
"""Each of them is JSON, and more than the vector store reads: 128 levels, and 64 bits."""


@pytest.mark.parametrize("value", _UNREADABLE.values(), ids=_UNREADABLE)
async def test_a_description_that_the_store_could_not_read_again_spoils_neither_search_nor_index(
    system: System, client: Client, value: str
) -> None:
    good = '{"id":"good","name":"good","description":"Subtracts numbers."}'
    body = f"{_DESCRIPTION % ('bad.http', value)}\n{good}\n"
    imported = (await system.http.put("/api/tools", content=body)).json()
    assert (imported["results"][0]["outcome"], imported["indexed"]) == ("rejected", True)

    told = await client.request(PUT_TOOLS.subject, b'{"tools":[%s]}' % (_DESCRIPTION % ("bad.nats", value)).encode())
    assert json.loads(told.data)["results"][0]["outcome"] == "rejected"
    assert (await system.search("subtract numbers")).status_code == 200
    assert (await system.http.get("/api/audit")).json()["agrees"]
    await system.http.delete("/api/tools/good")


async def test_after_all_that_everything_still_works(system: System, skills: None) -> None:
    assert (await system.http.get("/readyz")).status_code == 200
    assert (await system.run("add", args={"x": 1})).json()["stdout"] == "['/skill/scripts/main.py', '-x', '1']\n"
    assert (await system.hits("adds numbers", limit=1))[0]["name"] == "add"
