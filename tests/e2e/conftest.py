"""A whole skillbus for each module, as its users meet it: over HTTP, with the default model."""

import gc
import io
import zipfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from pydantic import JsonValue

from skillbus.common.bus.objects import open_object_store
from skillbus.common.testing import eventually
from skillbus.contracts.agent.tool_calls import LIST_BUILTINS
from skillbus.contracts.indexer.skills import GET_STATUS
from skillbus.contracts.message import Empty
from skillbus.contracts.resources import PACKAGES
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "skills"
ARCHIVES = ROOT.parent / "shared" / "data" / "skills"
"""Skills of others, which do not come with this repository."""

Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class System:
    """A running skillbus and a client of it."""

    standalone: Standalone
    http: httpx.AsyncClient

    @property
    def data(self) -> Path:
        return self.standalone.data

    async def install(self, package: bytes, project: str = "default") -> httpx.Response:
        files = {"package": ("package.zip", package)}
        return await self.http.post("/api/skills", files=files, data={"project": project})

    async def search(self, query: str, **more: JsonValue) -> httpx.Response:
        return await self.http.post("/api/tools/search", json={"query": query, **more})

    async def hits(self, query: str, **more: JsonValue) -> list[Json]:
        answer = await self.search(query, **more)
        assert answer.status_code == 200, answer.text
        hits: list[Json] = answer.json()["results"]
        return hits

    async def run(self, skill: str, **body: JsonValue) -> httpx.Response:
        return await self.http.post(f"/api/skills/{skill}/run", json=body)

    async def trace_of(self, name: str, project: str = "default") -> list[str]:
        """Where anything of a skill can be seen, of all the places that it can be in."""
        answer = await self.http.get("/api/skills", params={"limit": 100, "project": project})
        packages = await (await open_object_store(self.standalone.bus, PACKAGES)).names()
        hits = await self.hits(name, limit=100, threshold=0, project=project)
        found = [f"catalogue {skill['name']}" for skill in answer.json()["skills"] if skill["name"] == name]
        found += [f"package {package}" for package in packages if package.startswith(f"{project}/{name}/")]
        found += [f"folder {path}" for path in self.data.glob(f"**/skills/{name}")]
        return found + [f"hit {hit['name']}" for hit in hits if hit["id"] == f"skill:{name}"]

    async def counts(self) -> tuple[int, int | None]:
        """Skills in the catalogue and in the vector store."""
        status = await self.standalone.bus.caller.call(GET_STATUS, Empty())
        return status.skills, None if status.points is None else status.points - status.tools

    async def settle(self) -> None:
        """Wait until the tools that skillbus brings itself are in catalogue and vector store."""
        caller = self.standalone.bus.caller
        expected = len((await caller.call(LIST_BUILTINS, Empty())).tools)
        await eventually(
            lambda: caller.call(GET_STATUS, Empty()), lambda status: status.tools == status.points == expected
        )


def open_http(standalone: Standalone) -> httpx.AsyncClient:
    """A client of the owner."""
    return httpx.AsyncClient(base_url=standalone.http_url, headers=standalone.http_headers, timeout=60, trust_env=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[System]:
    settings = StandaloneSettings(data=tmp_path_factory.mktemp("e2e") / "parent" / "data", http_port=0)
    async with (
        open_standalone(settings) as standalone,
        open_http(standalone) as http,
    ):
        running = System(standalone, http)
        await running.settle()
        yield running
    del running, standalone, http
    gc.collect()  # reference cycles would keep models and indexes of each module's system until the end


def skill_package(
    name: str, description: str, files: Mapping[str, str] | None = None, tags: Iterable[str] = ()
) -> bytes:
    """A package with a SKILL.md and these files; with one script unless others are given."""
    metadata = f'metadata:\n  tags: "{", ".join(tags)}"\n' if tags else ""
    given = {"scripts/main.py": "print('done')\n"} if files is None else files
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(
            f"{name}/SKILL.md", f"---\nname: {name}\ndescription: {description}\n{metadata}---\n\n# {name}\n"
        )
        for path, text in given.items():
            archive.writestr(f"{name}/{path}", text)
    return stream.getvalue()


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem document; that it is a whole one is asserted."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert {"type", "title", "status", "detail", "instance", "code", "retryable"} <= body.keys()
    assert (body["type"], body["status"]) == (f"urn:skillbus:error:{body['code']}", answer.status_code)
    assert body["title"]
    assert body["detail"]
    return answer.status_code, body["code"]


def names(hits: Sequence[Json]) -> list[JsonValue]:
    return [hit["name"] for hit in hits]
