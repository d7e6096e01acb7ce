"""What callers get wrong about knowledge, over HTTP and over raw NATS: each is told so, and nothing is half done."""

import json
from collections.abc import AsyncGenerator
from typing import Final

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from pydantic import JsonValue

from .conftest import Json, System, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

_DRAFT: Final[Json] = {"type": "business_rule", "title": "A rule", "content": "Written down."}


def _item(**fields: JsonValue) -> bytes:
    return json.dumps({**_DRAFT, **fields}).encode()


def _asking(**fields: JsonValue) -> bytes:
    return json.dumps({"query": "a rule", **fields}).encode()


_BAD: Final[dict[str, tuple[str, str, bytes]]] = {
    "title-10,000": ("", "learner.create_knowledge", _item(title="x" * 10_000)),
    "title-blank": ("", "learner.create_knowledge", _item(title=" \u3000")),
    "content-500-kB": ("", "learner.create_knowledge", _item(content="x" * 500_000)),
    "tags-1,000": ("", "learner.create_knowledge", _item(tags=[f"t{number}" for number in range(1_000)])),
    "scope-up": ("", "learner.create_knowledge", _item(scope="../*")),
    "scope-half-a-star": ("", "learner.create_knowledge", _item(scope="/api/l*")),
    "scope-right-to-left": ("", "learner.create_knowledge", _item(scope="/api/\u202eevil")),
    "NUL": ("", "learner.create_knowledge", _item(content="a\0b")),
    "lone-surrogate": ("", "learner.create_knowledge", _item(title="?").replace(b"?", b"\\ud800")),
    "NaN": ("", "learner.create_knowledge", _item(priority=7).replace(b"7", b"NaN")),
    "10^400": ("", "learner.create_knowledge", _item(priority=7).replace(b"7", b"1" + b"0" * 400)),
    "too-deep": ("", "learner.create_knowledge", b'{"title":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    "before-year-1": ("", "learner.create_knowledge", _item(valid_from="0001-01-01T00:00:00+14:00")),
    "never-valid": ("", "learner.create_knowledge", _item(valid_from="2026-02-01", valid_to="2026-01-01")),
    "born-archived": ("", "learner.create_knowledge", _item(status="archived")),
    "project": ("", "learner.create_knowledge", _item(project="../other")),
    "type-with-SQL": ("", "learner.create_knowledge", _item(type="x' OR '1'='1")),
    "review-of-none": ("/review", "learner.review_knowledge", b'{"ids":[],"action":"approve"}'),
    "review-with-SQL": ("/review", "learner.review_knowledge", b'{"ids":["x\' OR 1=1"],"action":"approve"}'),
    "query-blank": ("/search", "retriever.search_knowledge", _asking(query="\t")),
    "query-100-kB": ("/search", "retriever.search_knowledge", _asking(query="x" * 100_000)),
    "top_k-10^9": ("/search", "retriever.search_knowledge", _asking(top_k=10**9)),
    "sources-with-SQL": ("/search", "retriever.search_knowledge", _asking(sources=["x' OR '1'='1"])),
    "budget-0": ("/context", "retriever.build_context", _asking(budget_tokens=0)),
    "budget-10^9": ("/context", "retriever.build_context", _asking(budget_tokens=10**9)),
    "tokenizer-elsewhere": ("/context", "retriever.build_context", _asking(tokenizer="../../etc/passwd")),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(system: System) -> AsyncGenerator[Client]:
    """A plain NATS client, as another language would have it."""
    address = system.standalone.nats.address
    connected = await nats.connect(address.url, token=address.token)
    yield connected
    await connected.close()


async def _written(system: System) -> str:
    """All that was ever done."""
    return (await system.http.get("/api/knowledge/audit", params={"limit": 1000})).text


@pytest.mark.parametrize(("path", "name", "body"), _BAD.values(), ids=_BAD)
async def test_what_is_wrong_is_refused_and_leaves_nothing(
    system: System, client: Client, path: str, name: str, body: bytes
) -> None:
    before = await _written(system)
    headers = {"Content-Type": "application/json"}
    answer = await system.http.post(f"/api/knowledge{path}", content=body, headers=headers)
    assert problem(answer) == (400, "invalid_request")

    reply = await client.request(f"skillbus.v1.{name}", body, timeout=10)
    assert json.loads(reply.data)["error"]["code"] == "invalid_request"
    assert await _written(system) == before


@pytest.mark.parametrize("after", ["x", "1.", "1.' OR 1=1", "999999999999999999.a", "-999999999999999999.a"])
async def test_a_cursor_that_was_tampered_with_is_refused(system: System, after: str) -> None:
    answer = await system.http.get("/api/knowledge", params={"after": after})
    assert problem(answer) == (400, "invalid_request")


async def test_five_megabytes_of_content_are_over_the_limit(system: System) -> None:
    assert problem(await system.http.post("/api/knowledge", content=_item(content="x" * 5_000_000)))[0] == 413


_ODD: Final = (
    "' OR '1'='1",
    "'; DROP TABLE knowledge; --",
    "%",
    "_",
    "\\",
    '"',
    "*",
    "a\u0301\u202eb",
    "<b>&amp;</b>",
    "$ne",
)


async def test_odd_texts_are_kept_as_they_are_and_found_by_nothing_but_themselves(system: System) -> None:
    http, project = system.http, "odd"
    for text in _ODD:
        item = {**_DRAFT, "title": text, "tags": [text], "owner": text, "external_id": text, "project": project}
        assert (await http.post("/api/knowledge", json=item)).status_code == 201
    for text in _ODD:
        for field in ("tags", "all_tags", "owner"):
            listed = await http.get("/api/knowledge", params={"project": project, field: text})
            assert [item["title"] for item in listed.json()["items"]] == [text]
        body = {"project": project, "query": text, "all_tags": [text], "threshold": 0}
        found = await http.post("/api/knowledge/search", json=body)
        assert [hit["item"]["external_id"] for hit in found.json()["results"]] == [text]
