"""`POST /api/knowledge/import` and `GET /api/knowledge/export`."""

import json
from collections.abc import Iterable

import httpx
import pytest
from pydantic import JsonValue

from skillbus.common.paging import MESSAGE_BYTES
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.learner.bulk import (
    EXPORT_KNOWLEDGE,
    MAX_ITEMS,
    PUT_KNOWLEDGE,
    ExportKnowledge,
    KnowledgeExported,
    KnowledgeItemPut,
    KnowledgePutOutcome,
    PutKnowledge,
)
from skillbus.contracts.learner.bulk import KnowledgePut as Put
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.message import Message
from skillbus.gateway.domain.knowledge import MARKDOWN_BYTES
from skillbus.gateway.settings import GatewaySettings

from .fakes import World
from .test_knowledge import ITEM

# As the data of the knowledge base has them.
LINES: tuple[dict[str, JsonValue], ...] = (
    {
        "id": "faq-0",
        "title": "APISIX FAQ",
        "content": "A gateway.",
        "tags": ["faq"],
        "type": "module_context",
        "lang": "en",
    },
    {
        "id": "妇女权益保障法#2022-10-30#第一条",
        "title": "妇女权益保障法 第一条",
        "content": "为了保障妇女的合法权益。",
        "type": "business_rule",
        "scope": "妇女权益保障法",
        "valid_from": "2022-10-30",
    },
)


def taken(request: Message) -> Put:
    assert isinstance(request, PutKnowledge)
    return Put(results=tuple(put(item) for item in request.items), indexed=True)


def put(item: object) -> KnowledgeItemPut:
    assert isinstance(item, dict)
    name = item.get("external_id") or item.get("id")
    if "title" not in item:
        return KnowledgeItemPut(external_id=name, outcome=KnowledgePutOutcome.REJECTED, error="title: Field required")
    return KnowledgeItemPut(id=f"own-{name}", external_id=name, outcome=KnowledgePutOutcome.CREATED, version=1)


def item(number: int, **more: object) -> dict[str, object]:
    return {"id": f"doc-{number}", "type": "module_context", "title": f"标题 {number}", "content": "内容"} | more


def ndjson(items: Iterable[object]) -> bytes:
    return "".join(f"{json.dumps(it, ensure_ascii=False)}\n" for it in items).encode()


async def send(world: World, body: bytes, kind: str = "application/x-ndjson", **where: str) -> httpx.Response:
    headers = {"Content-Type": kind, "Skillbus-Actor": "lin"}
    async with world.client() as client:
        return await client.post("/api/knowledge/import", content=body, params=where, headers=headers)


def requests(world: World) -> list[PutKnowledge]:
    return [request for _, request in world.caller.asked if isinstance(request, PutKnowledge)]


@pytest.fixture
def world() -> World:
    world = World(settings=GatewaySettings(upload_patience_s=0))
    world.caller.on(PUT_KNOWLEDGE, taken)
    return world


async def test_lines_of_the_data_go_on_as_they_are(world: World) -> None:
    answer = await send(world, ndjson(LINES), project="team-a", source="laws", status="pending", reason="first")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "total": 2,
            "counts": {"created": 2, "updated": 0, "unchanged": 0, "rejected": 0},
            "dry_run": False,
            "indexed": True,
            "unindexed": 0,
            "results": [
                {
                    "line": at + 1,
                    "id": f"own-{line['id']}",
                    "external_id": line["id"],
                    "outcome": "created",
                    "version": 1,
                    "error": None,
                }
                for at, line in enumerate(LINES)
            ],
        },
    )
    assert requests(world) == [
        PutKnowledge(
            project="team-a",
            items=LINES,
            source="laws",
            status=KnowledgeStatus.PENDING,
            actor="lin",
            reason="first",
        )
    ]


async def test_an_import_says_how_many_items_the_index_lacks(world: World) -> None:
    def lacking(request: Message) -> Put:
        return taken(request).model_copy(update={"indexed": False, "unindexed": 2})

    world.caller.on(PUT_KNOWLEDGE, lacking)
    report = (await send(world, ndjson(item(number) for number in range(MAX_ITEMS + 3)))).json()
    assert (report["indexed"], report["unindexed"]) == (False, 4)
    assert [request.wait_indexed_s for request in requests(world)] == [None, None]


async def test_an_import_that_waits_for_the_index_waits_two_minutes_in_all(world: World) -> None:
    await send(world, ndjson(item(number) for number in range(MAX_ITEMS + 3)), wait="indexed")
    waits = [request.wait_indexed_s for request in requests(world)]
    assert len(waits) == 2
    assert all(wait is not None and 60 < wait <= 120 for wait in waits)


async def test_an_import_waits_for_nothing_but_the_index(world: World) -> None:
    answer = await send(world, ndjson([item(1)]), wait="christmas")
    assert answer.status_code == 400
    assert requests(world) == []


@pytest.mark.parametrize("form", ["ndjson", "array"])
async def test_thousands_of_items_go_on_in_requests_that_the_bus_takes(world: World, form: str) -> None:
    items = [item(number, content="内容" * 2_000) for number in range(2 * MAX_ITEMS + 3)]
    body = ndjson(items) if form == "ndjson" else json.dumps(items, indent=1).encode()
    report = (await send(world, body)).json()
    assert report["counts"]["created"] == len(items)
    assert [it["line"] for it in report["results"]] == list(range(1, len(items) + 1))
    assert all(len(request.items) <= MAX_ITEMS for request in requests(world))
    assert all(len(request.model_dump_json().encode()) < MESSAGE_BYTES + 1_000 for request in requests(world))


async def test_a_bad_line_is_told_by_its_number_and_the_others_are_taken(world: World) -> None:
    lines = [
        ndjson([item(1)]).strip(),
        b'{"id": "doc-2", "title": ',
        b"",
        b"42",
        b'{"id": "doc-5"}',
        b'{"id": "doc-6", "title": "a", "content": "' + b"x" * 600_000 + b'"}',
        b'{"id": "doc-7", "priority": ' + b"9" * 4_000 + b"}",
        ndjson([item(8)]).strip(),
    ]
    report = (await send(world, b"\n".join(lines), only="problems")).json()
    told: dict[int, tuple[str | None, str]] = {it["line"]: (it["external_id"], it["error"]) for it in report["results"]}
    assert report["counts"] == {"created": 2, "updated": 0, "unchanged": 0, "rejected": 5}
    assert [told[line][0] for line in (2, 4, 5, 6, 7)] == [None, None, "doc-5", None, "doc-7"]
    for line, said in ((2, "not JSON"), (4, "not a JSON object"), (5, "title"), (6, "longer than"), (7, "priority")):
        assert said in told[line][1]


async def test_a_dry_run_is_told_to_the_learner_and_in_the_answer(world: World) -> None:
    report = (await send(world, ndjson(LINES), dry_run="true")).json()
    assert (report["dry_run"], [request.dry_run for request in requests(world)]) == (True, [True])


@pytest.mark.parametrize("body", [b"", b"\n \n", b"[]", b"id,title\n1,a\n", b"PK\x03\x04\n" * 500])
async def test_a_body_that_is_something_else_is_refused_as_a_whole(world: World, body: bytes) -> None:
    answer = await send(world, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert not world.caller.asked


@pytest.mark.parametrize("where", [{"source": "a b"}, {"project": "../x"}, {"status": "gone"}, {"first_line": "0"}])
async def test_wishes_against_the_contract_are_refused(world: World, where: dict[str, str]) -> None:
    answer = await send(world, ndjson(LINES), **where)
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, *where)


async def test_a_body_over_its_limit_is_refused(world: World) -> None:
    world.settings = GatewaySettings(knowledge_body_bytes=1_000)
    answer = await send(world, ndjson(item(number) for number in range(100)))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_a_learner_that_stays_away_is_told_with_how_far_it_came(world: World) -> None:
    def only_the_first(request: Message) -> Message | Exception:
        reply = taken(request)
        is_first = reply.results[0].external_id == "doc-0"
        return reply if is_first else RequestError(ErrorCode.UNAVAILABLE, "No learner is running.")

    world.caller.on(PUT_KNOWLEDGE, only_the_first)
    answer = await send(world, ndjson(item(number) for number in range(MAX_ITEMS + 5)))
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["details"]["line"]) == (503, "unavailable", MAX_ITEMS + 1)
    assert problem["details"]["counts"] == {"created": MAX_ITEMS}


async def test_a_learner_that_speaks_of_other_items_than_it_was_asked_is_not_believed(world: World) -> None:
    world.caller.on(PUT_KNOWLEDGE, lambda _: Put(results=(), indexed=True))
    answer = await send(world, ndjson(LINES))
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")


@pytest.mark.parametrize("kind", ["text/markdown", "Text/Markdown; charset=utf-8"])
async def test_one_item_comes_as_markdown(world: World, kind: str) -> None:
    body = "---\nexternal_id: faq-1\ntype: module_context\ntitle: 标题\ntags: [a, b]\n---\n\n# 说明\n<b>内容</b>\n"
    answer = await send(world, body.encode(), kind)
    assert (answer.status_code, answer.json()["results"][0]["external_id"]) == (200, "faq-1")
    assert requests(world)[0].items == (
        {
            "type": "module_context",
            "title": "标题",
            "tags": ["a", "b"],
            "external_id": "faq-1",
            "content": "# 说明\n<b>内容</b>",
        },
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"# no front matter", 400),
        (b"---\ntitle: &a [*a]\n---\nx", 400),
        (b"---\ntitle: \xff\n---\nx", 400),
        (b"---\ntitle: a\n---\n" + b"x" * MARKDOWN_BYTES, 413),
    ],
)
async def test_markdown_that_is_no_item_is_refused(world: World, body: bytes, status: int) -> None:
    answer = await send(world, body, "text/markdown")
    assert answer.status_code == status
    assert not world.caller.asked


async def test_an_export_is_read_page_by_page_and_is_what_an_import_takes(world: World) -> None:
    second = ITEM.model_copy(update={"id": "b", "title": "第二"})
    pages = {None: KnowledgeExported(items=(ITEM,), next=ITEM.id), ITEM.id: KnowledgeExported(items=(second,))}
    world.caller.on(EXPORT_KNOWLEDGE, lambda request: pages[getattr(request, "after", "")])
    query = "project=team-a&type=business_rule&status=active&status=archived"
    async with world.client() as client:
        answer = await client.get(f"/api/knowledge/export?{query}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        it.model_dump(mode="json") for it in (ITEM, second)
    ]
    assert world.caller.asked[0][1] == ExportKnowledge(
        project="team-a",
        limit=200,
        types=("business_rule",),
        statuses=(KnowledgeStatus.ACTIVE, KnowledgeStatus.ARCHIVED),
    )
    assert (await send(world, answer.content)).json()["counts"]["created"] == 2


async def test_an_export_that_cannot_begin_is_a_problem_document(world: World) -> None:
    async with world.client() as client:
        answer = await client.get("/api/knowledge/export")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
