"""Bodies over HTTP: exact JSON types and no unknown fields, except in OpenAI's format."""

import re
from typing import Any, Final

import pytest

from skillbus.contracts.learner.items import CreateKnowledge
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.contracts.retriever.tool_search import SearchTools

from .fakes import KEY, World

SEARCH: Final = "/api/tools/search"
IN_PATH: Final = {"alias": "tools", "project": DEFAULT_PROJECT, "run_id": "0" * 32, "key_id": "0" * 10}


async def read_document(world: World) -> dict[str, Any]:
    async with world.client() as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
    return document


async def post(world: World, path: str, body: object) -> tuple[int, dict[str, Any]]:
    async with world.client() as client:
        answer = await client.post(path, json=body)
    return answer.status_code, answer.json()


async def test_every_route_refuses_an_unknown_field_and_names_it_also_if_it_takes_no_body() -> None:
    world, refused, wrong = World(key=KEY), 0, []
    document = await read_document(world)
    async with world.client() as client:
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {})
                example = content.get("application/json", {}).get("example", {})
                if method == "get" or path.startswith("/v1/") or list(content) not in ([], ["application/json"]):
                    continue
                filled = re.sub(r"\{(\w+)(:path)?\}", lambda name: IN_PATH.get(name[1], "1"), path)
                query = {"from": "1", "to": "2"} if path.endswith("/diff") else {}
                answer = await client.request(method, filled, params=query, json={**example, "no_such_field": 1})
                fields = answer.json().get("details", {}).get("fields", [])
                refused += 1
                if (answer.status_code, [field["field"] for field in fields]) != (400, ["no_such_field"]):
                    wrong.append((method, path, answer.text))
    assert not wrong, "\n".join(map(str, wrong))
    assert refused > 45
    assert not world.caller.asked


@pytest.mark.parametrize(
    ("path", "body", "named", "hint"),
    [
        (SEARCH, {"query": "x", "querry": "y"}, "querry", "do you mean `query`?"),
        ("/api/indexes/tools/switch", {"fingerprint": "aaaa"}, "fingerprint", "this request has no body."),
        ("/api/skills/one/pin", {"project": "mine"}, "project", "it is a parameter of the query."),
        (SEARCH, {"query": "x", "zzz": 1}, "zzz", "the fields are explain, format, functions, limit, project,"),
        ("/api/knowledge/search", {"query": "x", "topk": 1}, "topk", "do you mean `top_k`?"),
        (
            "/api/embedding/models",
            {"provider": "p", "name": "n", "calibration": {"slope": 1, "offset": 0, "lexical": 1, "ofset": 1}},
            "calibration.ofset",
            "do you mean `offset`?",
        ),
    ],
)
async def test_an_unknown_field_is_named_with_the_nearest_known_one_at_its_place(
    path: str, body: object, named: str, hint: str
) -> None:
    status, problem = await post(World(key=KEY), path, body)
    (field,) = problem["details"]["fields"]
    assert (status, problem["code"], field["field"]) == (400, "invalid_request", named)
    assert hint in field["problem"]
    assert hint in problem["detail"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"explain": 0},
        {"explain": "true"},
        {"limit": "1"},
        {"limit": True},
        {"limit": 1.5},
        {"threshold": "0.5"},
        {"query": 1},
    ],
    ids=str,
)
async def test_a_value_of_another_json_type_is_refused(wrong: dict[str, object]) -> None:
    status, problem = await post(World(key=KEY), SEARCH, {"query": "x", **wrong})
    assert (status, problem["details"]["fields"][0]["field"]) == (400, next(iter(wrong)))


async def test_json_has_one_kind_of_number_and_no_dates_and_these_are_accepted() -> None:
    world = World(key=KEY)
    body = {"title": "a", "content": "b", "tags": ["c"], "valid_from": "2026-01-01T00:00:00Z", "status": "pending"}
    assert (await post(world, "/api/knowledge", body))[0] == 503  # nobody answers
    body = {"query": "x", "threshold": 0, "limit": 5.0, "quotas": {"skill": 2.0}}
    assert (await post(world, SEARCH, body))[0] == 503
    (_, created), (_, searched) = world.caller.asked
    assert isinstance(created, CreateKnowledge)
    assert isinstance(searched, SearchTools)
    assert (created.status, searched.limit, searched.quotas) == ("pending", 5, {"skill": 2})


async def test_an_empty_body_is_none() -> None:
    world = World(key=KEY)
    for body in ({}, None):
        assert (await post(world, "/api/skills/one/pin", body))[0] == 503
    assert len(world.caller.asked) == 2


async def test_unknown_fields_of_openai_clients_are_accepted() -> None:
    world = World(key=KEY)
    status, _ = await post(world, "/v1/embeddings", {"model": "use", "input": "x", "new_in_openai": {"a": 1}})
    assert (status, len(world.caller.asked)) == (503, 1)
    assert (await post(world, "/v1/embeddings", {"model": "use", "input": "x", "dimensions": "8"}))[0] == 400


async def test_the_document_closes_schemas_of_bodies_and_leaves_those_of_replies_open() -> None:
    schemas = (await read_document(World(key=KEY)))["components"]["schemas"]
    bodies = ("ToolSearchBody", "CreateKnowledge", "RunBody", "Calibration-Input")
    assert [schemas[name].get("additionalProperties") for name in bodies] == [False] * 4
    replies = ("KnowledgeItem", "EmbeddingsBody", "Calibration")
    assert [schemas[name].get("additionalProperties") for name in replies] == [None] * 3
