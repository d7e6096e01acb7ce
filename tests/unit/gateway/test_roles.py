"""Who may send which request about which project, for every operation of the OpenAPI document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import httpx
import pytest
from fastapi import APIRouter

from skillbus.contracts.bus_users import ADMINISTRATION, BUS_USERS, Zone
from skillbus.contracts.gateway.api_keys import ALL_PROJECTS, Role
from skillbus.contracts.learner.knowledge import EXAMPLE_ID
from skillbus.gateway.adapters.guarded_route import GuardedRoute
from skillbus.gateway.domain.access.authenticator import is_open_path

from .fakes import KEY, World

MINE, OTHER = "mine", "other"
IN_PATH: Final = {
    "alias": "tools",
    "id": EXAMPLE_ID,
    "key_id": "0" * 10,
    "model": "use-multilingual-v3",
    "name": "calculate",
    "path": "SKILL.md",
    "run_id": "0" * 32,
    "turn_id": "0" * 32,
    "sequence": "1",
    "source": "payments",
}
IN_QUERY: Final = {
    "diff_knowledge": {"from": "1", "to": "2"},
    "remove_tools": {"id": "weather.forecast"},
    "remove_devices": {"home": "Green House", "id": "lamp-1"},
    "remove_commands": {"id": "switch.on"},
}
BODIES: Final[dict[str, dict[str, object]]] = {
    "update_skill": {"description": "new"},
    "run_skill": {},
    "audit_and_fix": {"fix": False},
    "create_api_key": {"label": "a test", "projects": [MINE]},
    "set_knowledge_parent": {"parent": None},
}
"""Bodies of operations without an example in the document, or with one that names projects."""


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    members: dict[str, Any]
    schemas: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def id(self) -> str:
        return str(self.members["operationId"])

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = self.members.get("requestBody", {}).get("content", {})
        return content

    @cached_property
    def project_place(self) -> str | None:
        """Where the document says that the project is named."""
        for parameter in self.members.get("parameters", ()):
            if parameter["name"] == "project":
                return str(parameter["in"])
        for media_type, content in self.content.items():
            name = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
            if "project" in self.schemas.get(name, {}).get("properties", {}):
                return "form" if media_type == "multipart/form-data" else "body"
        return None

    def make_request(self, project: str | None, *, place: str | None = None) -> dict[str, Any]:
        """The arguments of a valid request that names a project, or none, at its place or another one."""
        place = place or self.project_place
        path = re.sub(r"\{(\w+)(:path)?\}", lambda name: {**IN_PATH, "project": project or MINE}[name[1]], self.path)
        request: dict[str, Any] = {"method": self.method, "url": path, "params": dict(IN_QUERY.get(self.id, {}))}
        if "multipart/form-data" in self.content:
            request["files"] = {"package": ("package.zip", b"PK")}
        elif "application/x-ndjson" in self.content:
            request["content"] = self.content["application/x-ndjson"]["example"]
        elif "application/json" in self.content:
            example = BODIES.get(self.id) or self.content["application/json"].get("example", {})
            request["json"] = {key: value for key, value in example.items() if key != "project"}
        if project is not None and place in {"query", "body", "form"}:
            request[{"query": "params", "body": "json", "form": "data"}[place]] = {
                **request.get({"query": "params", "body": "json", "form": "data"}[place], {}),
                "project": project,
            }
        return request


_OPERATIONS: list[Operation] = []


async def list_operations() -> list[Operation]:
    if not _OPERATIONS:
        _OPERATIONS.extend(await read_operations())
    return _OPERATIONS


async def read_operations() -> list[Operation]:
    async with World(key=KEY).client() as client:
        document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    return [
        Operation(method, path, members, schemas)
        for path, methods in document["paths"].items()
        for method, members in methods.items()
    ]


def refused(answer: httpx.Response) -> bool:
    return answer.status_code in {401, 403}


def asked_projects(world: World) -> Iterator[str]:
    for _, request in world.caller.asked:
        if (project := getattr(request, "project", None)) is not None:
            yield project


def test_a_route_without_a_role_cannot_be_made() -> None:
    async def handle() -> None: ...

    with pytest.raises(ValueError, match="Role"):
        APIRouter(route_class=GuardedRoute).add_api_route("/api/new", handle)


async def test_every_operation_declares_its_role_and_only_probes_are_public() -> None:
    operations = await list_operations()
    assert len(operations) > 80
    assert {str(operation) for operation in operations if operation.members["x-role"] not in set(Role)} == {
        "GET /healthz",
        "GET /readyz",
    }
    public = [operation for operation in operations if operation.members["x-role"] == "public"]
    assert all(is_open_path(operation.path) and operation.members["security"] == [] for operation in public)
    assert not [str(it) for it in operations if it not in public and is_open_path(it.path)]


async def test_the_user_of_the_bus_that_programs_share_may_not_send_what_http_leaves_to_admins() -> None:
    of_admins = {operation.id for operation in await list_operations() if operation.members["x-role"] == Role.ADMIN}
    [client] = [user for user in BUS_USERS if user.zone is Zone.CLIENTS]
    assert of_admins & {endpoint.name for endpoint in ADMINISTRATION}
    assert of_admins & {endpoint.name for endpoint in client.calls} == set()


async def test_without_a_valid_key_every_operation_but_the_probes_answers_401_and_asks_nobody() -> None:
    world, wrong = World(key=KEY), []
    foreign = World(key=KEY).add_key(Role.ADMIN, ALL_PROJECTS)
    for operation in await list_operations():
        for key in (None, foreign, f"{KEY}x"):
            headers = {"Authorization": f"Bearer {key}"} if key else {"Authorization": ""}
            async with world.client() as client:
                answer = await client.request(**operation.make_request(None), headers=headers)
            if (answer.status_code == 401) != (operation.members["x-role"] != "public"):
                wrong.append((str(operation), answer.status_code))
    assert not wrong, "\n".join(map(str, wrong))
    assert {name for name, _ in world.caller.asked} <= {"health"}


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_may_send_what_the_document_declares_for_it_and_nothing_else(role: Role) -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(role, ALL_PROJECTS)
    async with world.client(key) as client:
        for operation in await list_operations():
            world.caller.asked.clear()
            answer = await client.request(**operation.make_request(None))
            needed = operation.members["x-role"]
            allowed = needed == "public" or role.includes(Role(needed))
            if refused(answer) == allowed or (world.caller.asked and not allowed):
                wrong.append((str(operation), answer.status_code))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("role", list(Role))
async def test_a_session_may_send_what_its_key_may_and_change_things_only_with_its_token(role: Role) -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(role, ALL_PROJECTS)
    operations = sorted(await list_operations(), key=lambda it: it.id == "end_session")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.app()), base_url="http://gateway") as browser:
        login = await browser.post("/api/session", headers={"Authorization": f"Bearer {key}"})
        for operation in operations:
            needed = operation.members["x-role"]
            allowed = needed == "public" or role.includes(Role(needed))
            is_reading = operation.method == "get"
            world.caller.asked.clear()
            without = await browser.request(**operation.make_request(None))
            if refused(without) == (allowed and is_reading) or (world.caller.asked and not (allowed and is_reading)):
                wrong.append((str(operation), "without a token", without.status_code))
            token = {"X-CSRF-Token": login.json()["csrf_token"]}
            if refused(await browser.request(**operation.make_request(None), headers=token)) == allowed:
                wrong.append((str(operation), "with the token", without.status_code))
        assert (await browser.get("/api/session")).status_code == 401
    assert not wrong, "\n".join(map(str, wrong))


async def test_what_concerns_all_projects_is_refused_to_a_key_of_one() -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(Role.ADMIN, MINE)
    async with world.client(key) as client:
        for operation in await list_operations():
            answer = await client.request(**operation.make_request(None))
            if refused(answer) != bool(operation.members.get("x-all-projects")):
                wrong.append((str(operation), answer.status_code, answer.text))
    assert not wrong, "\n".join(map(str, wrong))


async def test_each_request_of_a_key_is_about_its_project_also_if_it_names_none() -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(Role.ADMIN, MINE)
    async with world.client(key) as client:
        for operation in await list_operations():
            for project in (None, MINE):
                world.caller.asked.clear()
                answer = await client.request(**operation.make_request(project))
                asked = set(asked_projects(world))
                if operation.id == "get_call_file":  # it asks no service: the project is in the name of the object
                    asked = set(re.findall(r"calls/(\w+)/\w+/", answer.json()["detail"]))
                expected = {MINE} if operation.project_place else set()
                if asked != expected:
                    wrong.append((str(operation), project, asked, answer.status_code, answer.text))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("place", [None, "query"])
async def test_another_project_answers_403_wherever_it_is_named_and_asks_nobody(place: str | None) -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(Role.ADMIN, MINE)
    async with world.client(key) as client:
        for operation in await list_operations():
            if operation.project_place is None:
                continue
            world.caller.asked.clear()
            answer = await client.request(**operation.make_request(OTHER, place=place))
            if answer.status_code != 403 or world.caller.asked:
                wrong.append((str(operation), answer.status_code, answer.text))
    assert not wrong, "\n".join(map(str, wrong))


async def test_a_key_of_several_projects_names_one_of_them() -> None:
    world, wrong = World(key=KEY), []
    key = world.add_key(Role.ADMIN, MINE, "second")
    async with world.client(key) as client:
        for operation in await list_operations():
            if operation.project_place in {None, "path"}:
                continue
            answers = [await client.request(**operation.make_request(project)) for project in (None, OTHER, "second")]
            if (answers[0].status_code, answers[1].status_code) != (400, 403) or refused(answers[2]):
                wrong.append((str(operation), [answer.status_code for answer in answers]))
    assert not wrong, "\n".join(map(str, wrong))
    assert set(asked_projects(world)) == {"second"}


async def test_the_owner_uses_any_project_and_the_default_one_if_none_is_named() -> None:
    world = World(key=KEY)
    async with world.client() as client:
        await client.post("/api/tools/search", json={"query": "x"})
        await client.post("/api/tools/search", json={"query": "x", "project": OTHER})
        await client.post("/api/tools/search?project=named", json={"query": "x"})
    assert list(asked_projects(world)) == ["default", OTHER, "named"]


@pytest.mark.parametrize(
    "request_parts",
    [
        {"url": f"/api/tools?project={MINE}&project={OTHER}"},
        {"url": f"/api/tools?project={OTHER}&project={MINE}"},
        {"url": f"/api/tools?%70roject={OTHER}"},
        {"url": "/api/tools?project="},
        {"url": f"/api/tools/search?project={MINE}", "method": "POST", "json": {"query": "x", "project": OTHER}},
        {"url": f"/api/tools/search?project={OTHER}", "method": "POST", "json": {"query": "x", "project": MINE}},
        {
            "url": "/api/tools/search",
            "method": "POST",
            "content": f'{{"query": "x", "project": "{MINE}", "\\u0070roject": "{OTHER}"}}',
            "headers": {"Content-Type": "application/json"},
        },
        {"url": f"/api/knowledge/projects/{MINE}?project={OTHER}"},
        {"url": f"/api/knowledge/projects/{MINE}", "method": "PUT", "json": {"parent": OTHER}},
    ],
)
async def test_no_way_of_naming_another_project_gets_past_the_key(request_parts: dict[str, Any]) -> None:
    world = World(key=KEY)
    async with world.client(world.add_key(Role.ADMIN, MINE)) as client:
        answer = await client.request(**{"method": "GET", **request_parts})
    assert answer.status_code == 403, answer.text
    assert not world.caller.asked


async def test_null_is_no_way_out_of_the_project_of_a_key() -> None:
    world = World(key=KEY)
    async with world.client(world.add_key(Role.ADMIN, MINE)) as client:
        await client.post("/api/tools/search", json={"query": "x", "project": None})
    assert list(asked_projects(world)) == [MINE]


async def test_files_of_a_run_are_fetched_by_keys_of_its_project() -> None:
    world = World(key=KEY)
    run_id = "0" * 32
    world.run_files.held[f"{run_id}/out/report.txt"] = b"secret"
    path = f"/api/runs/{run_id}/artifacts/report.txt"
    async with world.client(world.add_key(Role.READER, MINE)) as client:
        refused_one = await client.get(path)  # nobody answers whose run it is
    async with world.client() as client:
        fetched = await client.get(path)
    assert refused_one.status_code == 503
    assert b"secret" not in refused_one.content
    assert [name for name, _ in world.caller.asked] == ["get_run"]
    assert fetched.content == b"secret"
