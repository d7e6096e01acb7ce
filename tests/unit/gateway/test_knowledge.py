"""Items of knowledge over HTTP."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import httpx
import pytest
from starlette.types import ASGIApp

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.learner import knowledge as k
from skillbus.contracts.learner.bulk import EXPORT_KNOWLEDGE, PUT_KNOWLEDGE, KnowledgeExported
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ArchiveKnowledge,
    CreateKnowledge,
    GetKnowledge,
    KnowledgeListed,
    KnowledgeWritten,
    ListKnowledge,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.projects import (
    GET_KNOWLEDGE_PROJECT,
    LIST_KNOWLEDGE_AUDIT,
    SET_KNOWLEDGE_PARENT,
    GetKnowledgeProject,
    KnowledgeAuditListed,
    KnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.contracts.learner.usage import (
    GET_KNOWLEDGE_STATS,
    GET_KNOWLEDGE_USAGE,
    GIVE_FEEDBACK,
    GetKnowledgeStats,
    GetKnowledgeUsage,
    GiveFeedback,
    ItemUsage,
    KnowledgeStats,
)
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    REVIEW_KNOWLEDGE,
    DiffKnowledge,
    ItemReviewed,
    KnowledgeDiffed,
    KnowledgeReviewed,
    KnowledgeVersionsListed,
    ListKnowledgeVersions,
    ReviewKnowledge,
)
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.knowledge_search import (
    BUILD_CONTEXT,
    SEARCH_KNOWLEDGE,
    BuildContext,
    KnowledgeFound,
    KnowledgeHit,
    SearchKnowledge,
)
from skillbus.gateway.settings import GatewaySettings

from .fakes import FakeCaller, Handler, World

ID: Final = "01890000-0000-7000-8000-000000000000"
PATH: Final = f"/api/knowledge/{ID}"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
ITEM: Final = k.KnowledgeItem(
    type="business_rule",
    title="直播电商接口需要 game-id",
    content="所有 /api/live 下的接口都必须带 header `game-id`。<script>alert(1)</script>",
    scope="/api/live/*",
    tags=("auth", "game-id"),
    id=ID,
    version=3,
    digest="0" * 64,
    created_at=NOW,
    updated_at=NOW,
)
WRITTEN: Final = KnowledgeWritten(item=ITEM, indexed=True)
USAGE: Final = ItemUsage(id=ID, helpful=1)
FOUND: Final = KnowledgeFound(
    results=(KnowledgeHit(item=ITEM, score=0.93, cosine=0.7),), request_id="r", model="use", took_ms=1
)
ANSWERS: Final[tuple[tuple[Endpoint[Message, Message], Message], ...]] = (
    (CREATE_KNOWLEDGE, WRITTEN),
    (GET_KNOWLEDGE, ITEM),
    (LIST_KNOWLEDGE, KnowledgeListed(items=(), total=0)),
    (UPDATE_KNOWLEDGE, WRITTEN),
    (ARCHIVE_KNOWLEDGE, WRITTEN),
    (RESTORE_KNOWLEDGE, WRITTEN),
    (GET_KNOWLEDGE_HISTORY, KnowledgeVersionsListed(id=ID, versions=(), total=0)),
    (
        DIFF_KNOWLEDGE,
        KnowledgeDiffed(id=ID, from_version=1, to_version=2, changes=()),
    ),
    (REVIEW_KNOWLEDGE, KnowledgeReviewed(results=(), succeeded=0, failed=0)),
    (EXPORT_KNOWLEDGE, KnowledgeExported(items=(ITEM,))),
    (LIST_KNOWLEDGE_AUDIT, KnowledgeAuditListed(entries=())),
    (
        SET_KNOWLEDGE_PARENT,
        KnowledgeProject(project="team-a", parents=("default",)),
    ),
    (GET_KNOWLEDGE_PROJECT, KnowledgeProject(project="team-a")),
    (GIVE_FEEDBACK, USAGE),
    (GET_KNOWLEDGE_USAGE, USAGE),
    (
        GET_KNOWLEDGE_STATS,
        KnowledgeStats(project="default", total=0, by_status={}, by_type={}, unindexed=0, searches=0, contexts=0),
    ),
    (SEARCH_KNOWLEDGE, FOUND),
)


def always(reply: Message | Exception) -> Handler:
    return lambda _: reply


@dataclass(frozen=True, slots=True)
class Served:
    """One application for all tests here, since it takes long to build."""

    caller: FakeCaller
    app: ASGIApp


@pytest.fixture(scope="module")
def served() -> Served:
    world = World(settings=GatewaySettings(upload_patience_s=0))
    return Served(world.caller, world.app())


@pytest.fixture
def world(served: Served) -> Served:
    served.caller.asked.clear()
    for endpoint, reply in ANSWERS:
        served.caller.on(endpoint, always(reply))
    return served


async def ask(world: Served, method: str, path: str, **more: object) -> httpx.Response:
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        return await client.send(client.build_request(method, path, **more))  # type: ignore[arg-type]  # httpx names them


def asked(world: Served) -> Message:
    return world.caller.asked[-1][1]


async def test_knowledge_is_created_and_found_by_its_location(world: Served) -> None:
    """knowledge-base.md § 创建知识, 手动创建知识条目."""
    body = {"type": "business_rule", "title": "需要 game-id", "content": "必须带。", "project": "team-a"}
    answer = await ask(world, "POST", "/api/knowledge", json=body)
    assert (answer.status_code, answer.json()) == (201, WRITTEN.model_dump(mode="json"))
    assert answer.json()["item"]["status"] == "active"
    assert (answer.headers["Location"], answer.headers["ETag"]) == (PATH, '"3"')
    assert asked(world) == CreateKnowledge.model_validate({**body, "actor": "http"})


async def test_who_creates_it_and_by_which_key_stands_in_headers_or_in_the_body(world: Served) -> None:
    body = {"type": "business_rule", "title": "a", "content": "b"}
    headers = {"Skillbus-Actor": "林".encode(), "Idempotency-Key": b"key-1"}
    await ask(world, "POST", "/api/knowledge", json=body | {"actor": "body", "idempotency_key": "k"}, headers=headers)
    by_header = asked(world)
    await ask(world, "POST", "/api/knowledge", json=body | {"actor": "body", "idempotency_key": "k"})
    by_body = asked(world)
    assert isinstance(by_header, CreateKnowledge)
    assert isinstance(by_body, CreateKnowledge)
    assert (by_header.actor, by_header.idempotency_key) == ("林", "key-1")
    assert (by_body.actor, by_body.idempotency_key) == ("body", "k")


@pytest.mark.spec("knowledge-base.md § 获取知识列表")
async def test_a_list_is_filtered_by_type_status_and_tags_and_comes_by_page(world: Served) -> None:
    """knowledge-base.md § 获取知识列表."""
    query = (
        "type=business_rule&type=project_config&status=pending&status=active&tags=auth&tags=game-id&all_tags=a&scope=/a/"
        "&source=manual&owner=lin&text=game&limit=7&after=x&project=team-a"
    )
    answer = await ask(world, "GET", f"/api/knowledge?{query}")
    assert (answer.status_code, answer.json()) == (200, {"items": [], "total": 0, "next": None, "previous": None})
    assert asked(world) == ListKnowledge(
        project="team-a",
        limit=7,
        after="x",
        types=("business_rule", "project_config"),
        statuses=(k.KnowledgeStatus.PENDING, k.KnowledgeStatus.ACTIVE),
        tags=("auth", "game-id"),
        all_tags=("a",),
        scope="/a",
        source="manual",
        owner="lin",
        text="game",
    )


async def test_a_list_without_filters_is_of_active_items_and_an_empty_scope_is_the_general_one(world: Served) -> None:
    await ask(world, "GET", "/api/knowledge")
    of_active = asked(world)
    await ask(world, "GET", "/api/knowledge?scope=")
    assert (of_active, asked(world)) == (ListKnowledge(), ListKnowledge(scope=""))


async def test_an_update_changes_what_it_names_and_null_empties_what_can_be_empty(world: Served) -> None:
    """knowledge-base.md § 更新知识, 更新知识条目."""
    body = {"content": "缺少时返回 403。", "valid_to": None, "external_id": None, "title": None, "reason": "release 12"}
    headers = {"If-Match": '"2"', "Skillbus-Actor": "lin"}
    answer = await ask(world, "PUT", f"{PATH}?project=team-a", json=body, headers=headers)
    assert (answer.status_code, answer.json()["item"]["version"], answer.headers["ETag"]) == (200, 3, '"3"')
    assert asked(world) == UpdateKnowledge(
        id=ID,
        project="team-a",
        expected_version=2,
        actor="lin",
        reason="release 12",
        content="缺少时返回 403。",
        clear=("valid_to", "external_id"),
    )


async def test_an_item_as_it_was_read_can_be_sent_back_whole(world: Served) -> None:
    shown = (await ask(world, "GET", PATH)).json()
    answer = await ask(world, "PUT", PATH, json=shown | {"priority": 9})
    request = asked(world)
    assert answer.status_code == 200
    assert isinstance(request, UpdateKnowledge)
    assert (request.title, request.tags, request.priority) == (ITEM.title, ITEM.tags, 9)


async def test_a_deleted_item_is_archived(world: Served) -> None:
    """knowledge-base.md § 删除知识, 删除知识条目."""
    answer = await ask(world, "DELETE", f"{PATH}?project=team-a&reason=gone", headers={"If-Match": '"3"'})
    assert (answer.status_code, answer.content) == (204, b"")
    assert asked(world) == ArchiveKnowledge(id=ID, project="team-a", expected_version=3, actor="http", reason="gone")


@pytest.mark.spec("knowledge-base.md § 批量审核")
async def test_many_items_are_reviewed_at_once_and_each_has_its_result(world: Served) -> None:
    """knowledge-base.md § 批量审核."""
    results = (
        ItemReviewed(id=ID, ok=True, status=k.KnowledgeStatus.ACTIVE, version=2),
        ItemReviewed(id="b", ok=False, code=ErrorCode.NOT_FOUND, error="There is no such item."),
    )
    reviewed = KnowledgeReviewed(results=results, succeeded=1, failed=1)
    world.caller.on(REVIEW_KNOWLEDGE, always(reviewed))
    body = {"ids": [ID, "b"], "action": "approve", "reason": "seen"}
    answer = await ask(world, "POST", "/api/knowledge/review", json=body, headers={"Skillbus-Actor": "lin"})
    assert (answer.status_code, answer.json()) == (200, reviewed.model_dump(mode="json"))
    assert asked(world) == ReviewKnowledge.model_validate({**body, "actor": "lin"})


async def test_a_search_gives_hits_with_their_scores(world: Served) -> None:
    """knowledge-base.md § 检索测试."""
    body = {"query": "要哪些 header", "scope": "/api/live/*", "types": ["business_rule"], "top_k": 5, "explain": True}
    answer = await ask(world, "POST", "/api/knowledge/search", json=body)
    assert (answer.status_code, answer.json()["results"][0]["score"]) == (200, 0.93)
    assert asked(world) == SearchKnowledge.model_validate(body)


async def test_a_context_is_asked_for_as_the_contract_says(world: Served) -> None:
    await ask(world, "POST", "/api/knowledge/context", json={"query": "q", "budget_tokens": 500})
    assert asked(world) == BuildContext(query="q", budget_tokens=500)


async def test_what_else_there_is_of_an_item_is_asked_by_its_path(world: Served) -> None:
    voice = {"helpful": False, "query": "q", "request_id": "r", "comment": "old"}
    mine = {"Skillbus-Actor": "lin"}
    answers = [
        await ask(world, "GET", f"{PATH}/history?project=p&limit=2&before=9"),
        await ask(world, "GET", f"{PATH}/diff?project=p&from=1&to=2"),
        await ask(world, "POST", f"{PATH}/restore?project=p", headers={"If-Match": '"3"'}),
        await ask(world, "POST", f"{PATH}/restore", json={"version": 1, "reason": "better"}),
        await ask(world, "POST", f"{PATH}/feedback?project=p", json=voice, headers=mine),
        await ask(world, "GET", f"{PATH}/usage?project=p"),
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert [answers[2].headers["ETag"], answers[3].headers["ETag"]] == ['"3"'] * 2
    assert [request for _, request in world.caller.asked] == [
        ListKnowledgeVersions(project="p", id=ID, limit=2, before=9),
        DiffKnowledge(project="p", id=ID, from_version=1, to_version=2),
        RestoreKnowledge(project="p", id=ID, expected_version=3, actor="http"),
        RestoreKnowledge(id=ID, version=1, reason="better", actor="http"),
        GiveFeedback.model_validate({**voice, "project": "p", "id": ID, "actor": "lin"}),
        GetKnowledgeUsage(project="p", id=ID),
    ]


async def test_the_whole_base_is_asked_by_names_that_are_no_items(world: Served) -> None:
    answers = [
        await ask(world, "GET", "/api/knowledge/stats?project=p&stale_after_days=30&limit=5"),
        await ask(world, "GET", f"/api/knowledge/audit?project=p&id={ID}&after=7&limit=9"),
        await ask(world, "GET", "/api/knowledge/projects/team-a"),
        await ask(world, "PUT", "/api/knowledge/projects/team-a", json={"parent": "default"}),
        await ask(world, "PUT", "/api/knowledge/projects/team-a", json={"parent": None}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [request for _, request in world.caller.asked] == [
        GetKnowledgeStats(project="p", stale_after_days=30, limit=5),
        ListKnowledgeAudit(project="p", id=ID, after=7, limit=9),
        GetKnowledgeProject(project="team-a"),
        SetKnowledgeParent(project="team-a", parent="default", actor="http"),
        SetKnowledgeParent(project="team-a", parent=None, actor="http"),
    ]


async def test_a_parent_has_to_be_said(world: Served) -> None:
    answer = await ask(world, "PUT", "/api/knowledge/projects/team-a", json={})
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "parent")


async def test_an_item_is_read_as_it_was_at_a_version_or_at_a_time(world: Served) -> None:
    answer = await ask(world, "GET", f"{PATH}?version=2&project=p")
    by_version = asked(world)
    await ask(world, "GET", PATH, params={"as_of": "2026-01-01T08:00:00+08:00"})
    assert (answer.json(), answer.headers["ETag"]) == (ITEM.model_dump(mode="json"), '"3"')
    assert by_version == GetKnowledge(project="p", id=ID, version=2)
    assert asked(world) == GetKnowledge(id=ID, as_of=NOW)


@pytest.mark.parametrize(
    ("known", "status"), [('"3"', 304), ('W/"3", "9"', 304), ("*", 304), ('"2"', 200), ('""', 200)]
)
async def test_an_item_that_the_caller_has_is_not_sent_again(world: Served, known: str, status: int) -> None:
    answer = await ask(world, "GET", PATH, headers={"If-None-Match": known})
    assert (answer.status_code, bool(answer.content), answer.headers["ETag"]) == (status, status == 200, '"3"')


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/markdown", "text/markdown; charset=utf-8"),
        ("text/markdown, application/json;q=0.5", "text/markdown; charset=utf-8"),
        ("text/*", "text/markdown; charset=utf-8"),
        ("application/json, text/markdown;q=0.5", "application/json"),
        ("*/*", "application/json"),
        ("text/html, */*;q=0.8", "application/json"),
        ("text/markdown;q=x", "application/json"),
        ("", "application/json"),
    ],
)
async def test_an_item_comes_as_markdown_to_those_who_would_rather_have_it(
    world: Served, accept: str, kind: str
) -> None:
    answer = await ask(world, "GET", PATH, headers={"Accept": accept})
    assert answer.headers["Content-Type"] == kind
    assert (answer.headers["Vary"], answer.headers["X-Content-Type-Options"]) == ("Accept", "nosniff")
    assert "<script>alert(1)</script>" in answer.text  # as it is: whoever shows it sanitises it


@pytest.mark.parametrize(
    ("method", "path", "endpoint"),
    [
        ("PUT", PATH, UPDATE_KNOWLEDGE),
        ("DELETE", PATH, ARCHIVE_KNOWLEDGE),
        ("POST", f"{PATH}/restore", RESTORE_KNOWLEDGE),
    ],
)
async def test_a_change_of_an_old_version_is_refused(
    world: Served, method: str, path: str, endpoint: Endpoint[Message, Message]
) -> None:
    refused = RequestError(ErrorCode.PRECONDITION_FAILED, "The item is at version 3: read it again.")
    world.caller.on(endpoint, always(refused))
    body: dict[str, object] = {"json": {}} if method != "DELETE" else {}
    answer = await ask(world, method, path, headers={"If-Match": '"2"'}, **body)
    assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed")
    assert getattr(asked(world), "expected_version", None) == 2


@pytest.mark.parametrize(
    ("tag", "status"),
    [("*", 200), ('W/"3"', 412), ('"abc"', 412), ('"0"', 412), ('"9999999999"', 412), ("3", 400), ('"1", "2"', 400)],
)
async def test_what_is_no_tag_of_a_version_is_never_taken_for_one(world: Served, tag: str, status: int) -> None:
    answer = await ask(world, "PUT", PATH, json={"priority": 1}, headers={"If-Match": tag})
    assert (answer.status_code, len(world.caller.asked)) == (status, int(status == 200))


BAD_ITEMS: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("title", {"title": "x" * 10_000}),
    ("title", {"title": " \n"}),
    ("title", {"title": "a\0b"}),
    ("content", {"content": "x" * 500_000}),
    ("content", {"content": ""}),
    ("tags", {"tags": [f"tag-{number}" for number in range(1_000)]}),
    ("tags.0", {"tags": ["x" * 101]}),
    ("scope", {"scope": "../*"}),
    ("scope", {"scope": "/api/**"}),
    ("type", {"type": "An opinion"}),
    ("priority", {"priority": 11}),
    ("source", {"source": "'; DROP TABLE knowledge; --"}),
    ("valid_from", {"valid_from": "0001-01-01T00:00:00+14:00"}),
    ("valid_to", {"valid_to": "soon"}),
)


@pytest.mark.parametrize(("field", "wrong"), BAD_ITEMS)
async def test_an_item_against_the_contract_names_the_field_that_is_wrong(
    world: Served, field: str, wrong: dict[str, object]
) -> None:
    good = {"type": "business_rule", "title": "a", "content": "b"}
    for method, path, body in (("POST", "/api/knowledge", good | wrong), ("PUT", PATH, wrong)):
        answer = await ask(world, method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
        assert [it["field"] for it in answer.json()["details"]["fields"]] == [field]
    assert not world.caller.asked


async def test_content_of_five_megabytes_is_refused_while_it_comes(world: Served) -> None:
    body = {"type": "business_rule", "title": "a", "content": "x" * 5_000_000}
    answer = await ask(world, "POST", "/api/knowledge", json=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/knowledge/a_b"),
        ("GET", f"/api/knowledge/{'a' * 65}"),
        ("DELETE", "/api/knowledge/a%00"),
        ("PUT", "/api/knowledge/..%5C"),
        ("GET", "/api/knowledge/%27%20OR%201=1"),
        ("GET", f"{PATH}?version=0"),
        ("GET", f"{PATH}?version={2**40}"),
        ("GET", f"{PATH}?as_of=9999-12-31T23:59:59-01:00"),
        ("GET", f"{PATH}?project=../other"),
        ("GET", f"{PATH}/diff?from=1"),
        ("GET", f"{PATH}/history?limit=1000000000"),
        ("GET", "/api/knowledge?scope=../*"),
        ("GET", "/api/knowledge?type=An+opinion"),
        ("GET", f"/api/knowledge?{'&'.join(f'tags={number}' for number in range(1_000))}"),
        ("GET", f"/api/knowledge?text={'x' * 201}"),
        ("GET", f"/api/knowledge/audit?after={2**70}"),
    ],
)
async def test_a_path_or_query_against_the_contract_is_an_invalid_request(
    world: Served, method: str, path: str
) -> None:
    answer = await ask(world, method, path, **({"json": {}} if method == "PUT" else {}))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert not world.caller.asked


@pytest.mark.parametrize("name", ["Skillbus-Actor", "Idempotency-Key"])
@pytest.mark.parametrize("value", [b"\xff\xfe", b"x" * 201, b""])
async def test_a_name_that_no_header_should_hold_is_refused(world: Served, name: str, value: bytes) -> None:
    body = {"type": "business_rule", "title": "a", "content": "b"}
    answer = await ask(world, "POST", "/api/knowledge", json=body, headers={name: value})
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, name)


@pytest.mark.parametrize(
    ("path", "field", "body"),
    [
        ("search", "query", b'{"query": ""}'),
        ("search", "top_k", b'{"query": "a", "top_k": 0}'),
        ("search", "threshold", b'{"query": "a", "threshold": 1.5}'),
        ("search", None, b'{"query": "a", "threshold": NaN}'),
        ("search", None, b'{"query": "a", "threshold": 1e999}'),
        ("search", "scope", b'{"query": "a", "scope": "../*"}'),
        ("context", "budget_tokens", b'{"query": "a", "budget_tokens": 0}'),
        ("context", "budget_tokens", b'{"query": "a", "budget_tokens": 1000000000}'),
        ("context", "tokenizer", b'{"query": "a", "tokenizer": "../../etc/passwd"}'),
        ("review", "ids", b'{"ids": [], "action": "approve"}'),
        ("review", "ids", b'{"ids": [' + b",".join([b'"a"'] * 257) + b'], "action": "approve"}'),
        ("review", "action", b'{"ids": ["a"], "action": "delete"}'),
        (f"{ID}/feedback", "helpful", b'{"query": "a"}'),
    ],
)
async def test_a_body_against_the_contract_is_an_invalid_request(
    world: Served, path: str, field: str | None, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await ask(world, "POST", f"/api/knowledge/{path}", content=body, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid_request")
    assert field is None or [it["field"] for it in problem["details"]["fields"]] == [field]
    assert not world.caller.asked


CALLS: Final[tuple[tuple[str, str, str, Endpoint[Message, Message], object], ...]] = (
    ("GET", "", "", LIST_KNOWLEDGE, None),
    ("POST", "", "", CREATE_KNOWLEDGE, {"type": "business_rule", "title": "a", "content": "b"}),
    ("GET", "/{id}", "", GET_KNOWLEDGE, None),
    ("PUT", "/{id}", "", UPDATE_KNOWLEDGE, {}),
    ("DELETE", "/{id}", "", ARCHIVE_KNOWLEDGE, None),
    ("GET", "/{id}/history", "", GET_KNOWLEDGE_HISTORY, None),
    ("GET", "/{id}/diff", "?from=1&to=2", DIFF_KNOWLEDGE, None),
    ("POST", "/{id}/restore", "", RESTORE_KNOWLEDGE, {}),
    ("POST", "/{id}/feedback", "", GIVE_FEEDBACK, {"helpful": True}),
    ("GET", "/{id}/usage", "", GET_KNOWLEDGE_USAGE, None),
    ("POST", "/search", "", SEARCH_KNOWLEDGE, {"query": "a"}),
    ("POST", "/context", "", BUILD_CONTEXT, {"query": "a"}),
    ("POST", "/review", "", REVIEW_KNOWLEDGE, {"ids": ["a"], "action": "approve"}),
    ("POST", "/import", "", PUT_KNOWLEDGE, [{"id": "a"}]),
    ("GET", "/export", "", EXPORT_KNOWLEDGE, None),
    ("GET", "/stats", "", GET_KNOWLEDGE_STATS, None),
    ("GET", "/audit", "", LIST_KNOWLEDGE_AUDIT, None),
    ("GET", "/projects/{project}", "", GET_KNOWLEDGE_PROJECT, None),
    ("PUT", "/projects/{project}", "", SET_KNOWLEDGE_PARENT, {"parent": None}),
)


@pytest.mark.parametrize(("method", "path", "query", "endpoint", "body"), CALLS)
async def test_every_error_of_a_request_is_answered_as_it_is_documented(
    world: Served, method: str, path: str, query: str, endpoint: Endpoint[Message, Message], body: object
) -> None:
    named = f"/api/knowledge{path}".replace("{id}", ID).replace("{project}", "team-a") + query
    more = {} if body is None else {"json": body}
    documented = (await ask(world, "GET", "/openapi.json")).json()["paths"][f"/api/knowledge{path}"][method.lower()]
    for code in endpoint.errors:
        world.caller.on(endpoint, always(RequestError(code, "What to do.")))
        answer = await ask(world, method, named, **more)
        assert (answer.status_code, answer.json()["code"]) == (ERROR_CLASSES[code].status, code)
        assert f"`{code}`" in documented["responses"][str(answer.status_code)]["description"]
