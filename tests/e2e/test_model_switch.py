"""The default model is changed while people search and install: nobody notices but by who answers."""

import asyncio

import httpx
import pytest
from pydantic import JsonValue

from skillbus.common.archive import pack_directory
from skillbus.common.testing import eventually

from .conftest import EXAMPLES, Json, System, names, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

USE, MINILM = "use-multilingual-v3", "all-MiniLM-L6-v2"
QUERY = "compare two texts and show the difference"
ADDED = 8
SETTLED = {"kept", "done"}


async def _index(system: System) -> Json:
    answer = await system.http.get("/api/indexes")
    assert answer.status_code == 200, answer.text
    indexes: dict[str, Json] = {index["alias"]: index for index in answer.json()["indexes"]}
    assert set(indexes) == {"tools", "knowledge", "devices", "commands"}
    return indexes["tools"]


async def _settled_on(system: System, model: str) -> Json:
    """Once this model is searched and its switch has come to rest."""

    def holds(index: Json) -> bool:
        return _at(index, "live", "name") == model and _at(index, "switch", "phase") in SETTLED | {"rolled_back"}

    return await eventually(lambda: _index(system), holds, wait_s=30)


def _at(value: JsonValue, *path: str) -> JsonValue:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


async def _searching(system: System, stop: asyncio.Event) -> list[httpx.Response]:
    answers = []
    while not stop.is_set():
        answers.append(await system.search(QUERY, limit=3))
        await asyncio.sleep(0)
    return answers


async def _answered_by(system: System, model: str) -> httpx.Response:
    """A retriever may take the index for where it was for another second: what it searches is there, and answers."""
    return await eventually(lambda: system.search(QUERY, limit=1), lambda answer: answer.json()["model"] == model)


async def _make_default(system: System, model: str) -> None:
    answer = await system.http.patch(f"/api/embedding/models/{model}", json={"is_default": True})
    assert answer.status_code == 200, answer.text


async def test_searches_and_installs_go_on_while_the_index_is_taken_to_another_model(system: System) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    for skill in sorted(EXAMPLES.iterdir()):
        await system.install(pack_directory(skill))
    answer = await system.http.post("/api/embedding/models", json={"provider": "local", "name": MINILM})
    assert answer.status_code == 201, answer.text
    stop = asyncio.Event()
    searching = asyncio.create_task(_searching(system, stop))

    await _make_default(system, MINILM)
    for number in range(ADDED):
        installed = await system.install(skill_package(f"added-{number}", f"Folds paper boats, way {number}."))
        assert installed.status_code == 201
    await _settled_on(system, MINILM)
    await _answered_by(system, MINILM)
    stop.set()
    answers = await searching

    assert len(answers) > 2
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["degraded"] for answer in answers} == {None}
    assert {answer.json()["model"] for answer in answers} <= {USE, MINILM}
    assert {answer.json()["results"][0]["name"] for answer in answers} == {"text-diff"}
    assert set(names(await system.hits("fold a paper boat", limit=ADDED))) == {
        f"added-{number}" for number in range(ADDED)
    }
    assert await system.counts() == (len(list(EXAMPLES.iterdir())) + ADDED,) * 2


async def test_the_way_back_is_one_request(system: System) -> None:
    back = await system.http.post("/api/indexes/tools/rollback")
    found = await _answered_by(system, USE)
    again = await system.http.post("/api/indexes/tools/rollback")

    assert back.status_code == 200
    assert _at(back.json(), "live", "name") == USE
    assert found.json()["results"][0]["name"] == "text-diff"
    assert problem(again) == (409, "conflict")


async def test_openais_requests_are_answered_by_any_registered_model(system: System) -> None:
    listed = (await system.http.get("/v1/models")).json()
    answer = await system.http.post("/v1/embeddings", json={"model": USE, "input": ["帮我提交代码", "commit"]})

    assert {model["id"] for model in listed["data"]} == {USE, MINILM}
    assert [len(row["embedding"]) for row in answer.json()["data"]] == [512, 512]
    assert answer.json()["model"] == USE
