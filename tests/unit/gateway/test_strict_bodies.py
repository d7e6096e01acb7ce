"""Bodies over HTTP: exact JSON types and no unknown fields, except in OpenAI's format."""

from typing import Any, Final

import pytest

from skillbus.contracts.message import DEFAULT_PROJECT

from .fakes import KEY, World

SEARCH: Final = "/api/tools/search"
IN_PATH: Final = {"id": "one", "model": "m", "name": "n", "project": DEFAULT_PROJECT}


async def read_document(world: World) -> dict[str, Any]:
    async with world.client() as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
    return document


async def post(world: World, path: str, body: object) -> tuple[int, dict[str, Any]]:
    async with world.client() as client:
        answer = await client.post(path, json=body)
    return answer.status_code, answer.json()


async def test_every_route_with_a_json_body_refuses_an_unknown_field_and_names_it() -> None:
    world, refused, wrong = World(key=KEY), 0, []
    document = await read_document(world)
    async with world.client() as client:
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {})
                example = content.get("application/json", {}).get("example", {})
                if path.startswith("/v1/") or list(content) != ["application/json"]:
                    continue
                filled = path.replace("{id:path}", "{id}").format_map(IN_PATH)
                answer = await client.request(method, filled, json={**example, "no_such_field": 1})
                fields = answer.json().get("details", {}).get("fields", [])
                refused += 1
                if (answer.status_code, [field["field"] for field in fields]) != (400, ["no_such_field"]):
                    wrong.append((method, path, answer.text))
    assert not wrong, "\n".join(map(str, wrong))
    assert refused > 20
    assert not world.caller.asked


@pytest.mark.parametrize(
    ("path", "body", "named", "hint"),
    [
        (SEARCH, {"query": "x", "querry": "y"}, "querry", "do you mean `query`?"),
        (SEARCH, {"query": "x", "zzz": 1}, "zzz", "the fields are explain, format, limit, project, query,"),
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
    [{"explain": 0}, {"explain": "true"}, {"limit": "1"}, {"limit": True}, {"threshold": "0.5"}, {"query": 1}],
    ids=str,
)
async def test_a_value_of_another_json_type_is_refused(wrong: dict[str, object]) -> None:
    status, problem = await post(World(key=KEY), SEARCH, {"query": "x", **wrong})
    assert (status, problem["details"]["fields"][0]["field"]) == (400, next(iter(wrong)))


async def test_json_has_one_kind_of_number_and_no_dates_and_these_are_accepted() -> None:
    world = World(key=KEY)
    body = {"title": "a", "content": "b", "tags": ["c"], "valid_from": "2026-01-01T00:00:00Z", "status": "pending"}
    assert (await post(world, "/api/knowledge", body))[0] == 503  # nobody answers
    assert (await post(world, SEARCH, {"query": "x", "threshold": 0}))[0] == 503
    assert [name for name, _ in world.caller.asked] == ["create_knowledge", "search_tools"]


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
