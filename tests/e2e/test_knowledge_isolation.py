"""Knowledge and homes of a project are neither seen, nor changed, nor told of by any request of another."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

import pytest
import pytest_asyncio
from pydantic import JsonValue

from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.errors import ErrorCode, RequestError

from .conftest import Json, System, problem
from .home_neighbours import DIALOGUE, SECRET, SHARED, HomeNeighbours, find_told, make_device, settle_homes
from .knowledge_neighbours import ABOVE, EXTERNAL_ID, KEY, STATUSES, STRANGER, WORD, Neighbours, objects, settled

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHER: Final = "east"
"""Of a stranger who writes: what it says is not what another one reads."""

Cases = Callable[[Neighbours], Sequence[Json]]

_DRAFT: Final[Json] = {"type": "business_rule", "title": "Mine", "content": "Of my own."}
_QUERY: Final = f"the {WORD} rule"
_FILE: Final[Json] = {
    "name": "mine.log",
    "content": {"size_bytes": 0, "sha256": sha256(b"").hexdigest(), "inline": ""},
}


def _each(*more: Json, inherited: bool = True) -> Cases:
    """Each item of the owner by its id, and one that is inherited and another project's all the same."""
    return lambda it: [
        {"id": item, **one} for item in (*it.ids, *([it.inherited.id] if inherited else [])) for one in more
    ]


def _once(*asked: Json) -> Cases:
    return lambda it: asked


_REFUSED: Final[dict[str, Cases]] = {
    "get_knowledge": _each({}, {"version": 1}, {"as_of": "2999-01-01T00:00:00Z"}),
    "update_knowledge": _each({"title": "Mine now"}, {"title": "Mine now", "expected_version": 1}),
    "archive_knowledge": _each({}, {"expected_version": 7}),
    "restore_knowledge": _each({}, {"version": 1}, {"version": 1, "expected_version": 7}),
    "get_knowledge_history": _each({}, {"before": 2}),
    "diff_knowledge": _each({"from_version": 1, "to_version": 2}),
    "give_feedback": _each({"helpful": False, "query": _QUERY, "actor": "northern-actor"}, inherited=False),
    "get_knowledge_usage": _each({}),
    "get_proposal": _each({}),
    "get_learning_job": lambda it: [{"id": it.job}],
    "get_learning_report": lambda it: [{"id": it.job}, {"id": it.job, "after": 1}],
    "cancel_learning": lambda it: [{"id": it.job}],
}
"""What names an item: it is not found."""


def _searches(it: Neighbours) -> list[Json]:
    filters: list[Json] = [
        {},
        {"inherit": False},
        {"tags": ["northern-tag"]},
        {"all_tags": ["northern-tag"]},
        {"sources": ["northern-source"]},
        {"scope": "/northern/rooms"},
        {"scope": "/northern/*"},
        {"at": it.active.created_at},
    ]
    return [{"query": _QUERY, "threshold": 0, **more} for more in filters]


def _lists(it: Neighbours) -> list[Json]:
    filters: list[Json] = [
        {},
        {"after": it.cursor},
        {"text": WORD},
        {"text": "%"},
        {"tags": ["northern-tag"]},
        {"all_tags": ["northern-tag"]},
        {"scope": "/northern/rooms"},
        {"source": "northern-source"},
        {"owner": "northern-owner"},
    ]
    return [{"statuses": STATUSES, **more} for more in filters]


def _puts(it: Neighbours) -> list[Json]:
    names: list[Json] = [{"id": it.active.id}, {"external_id": it.pending.id}, {"id": EXTERNAL_ID}]
    return [
        {"items": [{**_DRAFT, **name}], "dry_run": dry_run, "project": OTHER}
        for dry_run in (True, False)
        for name in names
    ]


def _decisions(it: Neighbours) -> list[Json]:
    decisions: list[Json] = [{"action": action} for action in ("approve", "reject", "merge", "supersede")]
    decisions += [{"action": "snooze", "until": "2999-01-01T00:00:00Z"}, {"action": "merge", "other": it.active.id}]
    return [{"ids": [*it.ids, it.inherited.id], **one} for one in decisions]


def _keys(it: Neighbours) -> list[JsonValue]:
    return [{"project": STRANGER, "id": item} for item in it.ids]


_SILENT: Final[dict[str, Cases]] = {
    "create_knowledge": lambda it: [
        {**_DRAFT, "project": OTHER, "idempotency_key": KEY},
        {**_DRAFT, "project": OTHER, "external_id": EXTERNAL_ID},
        {**_DRAFT, "project": OTHER, "external_id": it.active.id},
        {**it.active.draft, "project": OTHER, "idempotency_key": f"{KEY}-2"},
    ],
    "list_knowledge": _lists,
    "review_knowledge": _decisions,
    "list_proposals": lambda it: [{}, {"snoozed": True}, {"job": it.job}, {"after": it.learned}],
    "start_learning": lambda it: [{"source": "northern-source", "enable_learning": False, "files": [_FILE]}],
    "list_learning_jobs": lambda it: [{}, {"after": it.job}, {"source": "northern-source"}, {"task": "northern-task"}],
    "list_learning_sources": _once({}, {"after": "northern-"}),
    "set_learning_source": _once({"source": "southern", "enabled": False}, {"source": "southern", "enabled": True}),
    "find_nearest_knowledge": _once({"texts": [{"text": _QUERY}, {"text": _QUERY, "scope": "/northern/rooms"}]}),
    "put_knowledge": _puts,
    "export_knowledge": lambda it: [
        {"statuses": STATUSES},
        {"statuses": STATUSES, "after": it.active.id},
        {"statuses": [], "after": "0"},
    ],
    "list_knowledge_audit": _each({}, {"after": 0}),
    "set_knowledge_parent": _once({"parent": None}, {"parent": ABOVE}),
    "get_knowledge_project": _once({}),
    "get_knowledge_stats": _once({"limit": 100}),
    "read_knowledge": lambda it: [{"keys": _keys(it)}],
    "list_knowledge_digests": lambda it: [
        {},
        *({"after": key} for key in _keys(it)),
        {"after": {"project": "a", "id": "0"}},
    ],
    "find_knowledge": lambda it: [{"ids": [*it.ids], "inherit": yes} for yes in (True, False)],
    "search_knowledge": lambda it: [{**asked, "top_k": 100, "explain": True} for asked in _searches(it)],
    "build_context": lambda it: [{**asked, "budget_tokens": 100_000} for asked in _searches(it)],
    "audit_index": _once({}, {"fix": True}),
}
"""What names none, or several: it is answered, and says nothing of them."""

_CASES: Final = _REFUSED | _SILENT


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbours(system: System) -> Neighbours:
    return await settled(system)


async def test_every_request_about_knowledge_is_tried() -> None:
    about = {
        endpoint.name
        for endpoint in ENDPOINTS
        if endpoint.service == "learner" or "knowledge" in endpoint.request.__module__
    }
    assert about - set(_CASES) == {"health"}


@pytest.mark.parametrize("name", _SILENT)
async def test_no_request_tells_of_another_project_or_changes_it(neighbours: Neighbours, name: str) -> None:
    before = await neighbours.owned()
    for case in _SILENT[name](neighbours):
        asked = {"project": STRANGER, **case}
        said = await neighbours.ask(name, asked)
        assert neighbours.told_by(json.dumps(said), json.dumps(asked)) == [], asked
    assert await neighbours.owned() == before


@pytest.mark.parametrize("name", _REFUSED)
async def test_an_id_of_another_project_is_not_found_by_any_request(neighbours: Neighbours, name: str) -> None:
    before = await neighbours.owned()
    for case in _REFUSED[name](neighbours):
        asked = {**case, "project": STRANGER}
        with pytest.raises(RequestError) as refused:
            await neighbours.ask(name, asked)
        assert refused.value.code is ErrorCode.NOT_FOUND, asked
        said = f"{refused.value} {json.dumps(refused.value.details)}"
        assert neighbours.told_by(said, json.dumps(asked)) == [], asked
    assert await neighbours.owned() == before


async def test_what_is_imported_or_created_under_a_name_of_another_project_is_new(neighbours: Neighbours) -> None:
    line: Json = {**_DRAFT, "id": neighbours.archived.id}
    put = await neighbours.ask("put_knowledge", {"items": [line], "project": "west"})
    again = await neighbours.ask("create_knowledge", {**_DRAFT, "project": "west", "idempotency_key": KEY})
    (result,) = objects(put, "results")
    assert (result["outcome"], result["version"]) == ("created", 1)
    assert result["id"] not in neighbours.ids
    assert not again["repeated"]


_BODIES: Final[dict[str, Json]] = {
    "PUT /api/knowledge/{id}": {"title": "Mine now"},
    "POST /api/knowledge/{id}/restore": {"version": 1},
    "POST /api/knowledge/{id}/feedback": {"helpful": False, "query": _QUERY},
}
_HEADERS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"If-Match": '"2"'},
    {"If-None-Match": '"2"'},
    {"Accept": "text/markdown"},
)


async def test_an_id_of_another_project_is_not_found_at_any_path(neighbours: Neighbours) -> None:
    http, before = neighbours.system.http, await neighbours.owned()
    paths = (await http.get("/openapi.json")).json()["paths"]
    operations = [(method.upper(), path) for path in paths if "/api/knowledge/{id}" in path for method in paths[path]]
    assert len(operations) == 9
    for method, path in operations:
        for item in neighbours.ids:
            for headers in _HEADERS:
                params: dict[str, str | int] = {"project": STRANGER, "from": 1, "to": 2}
                body = _BODIES.get(f"{method} {path}")
                answer = await http.request(
                    method, path.replace("{id}", item), params=params, json=body, headers=headers
                )
                assert problem(answer) == (404, "not_found"), (method, path, headers)
                assert neighbours.told_by(answer.text, item) == []
    assert await neighbours.owned() == before


async def test_what_a_project_inherits_is_gone_with_the_reply_that_takes_its_parent(neighbours: Neighbours) -> None:
    async def seen() -> set[str]:
        asked: Json = {"project": STRANGER, "query": "a rule for both", "threshold": 0, "top_k": 100}
        found = await neighbours.ask("search_knowledge", asked)
        items = [hit["item"] for hit in objects(found, "results")]
        return {str(item["project"]) for item in items if isinstance(item, dict)}

    for _ in range(10):
        await neighbours.ask("set_knowledge_parent", {"project": STRANGER, "parent": None})
        assert await seen() == {STRANGER}
        await neighbours.ask("set_knowledge_parent", {"project": STRANGER, "parent": ABOVE})
        assert await seen() == {STRANGER, ABOVE}


_SPOKEN: Final[list[Json]] = [
    {"text": text, "parser": "rules"} for text in (f"打开{WORD}灯", "turn on all lamps", "打开所有的灯")
]
_REFERENCES: Final[list[Json]] = [
    {"text": "打开那个", "parser": "rules"},
    {"text": "打开它", "parser": "rules", "last_mentioned": ["lamp"]},
]
_HOME_CASES: Final[dict[str, Callable[[HomeNeighbours], Sequence[Json]]]] = {
    "list_devices": lambda it: [{}, {"home": SECRET}, {"room": "northern-room"}, {"text": WORD}, {"after": it.cursor}],
    "list_homes": lambda it: [{}],
    "load_home": lambda it: [{"home": SECRET}, {"home": SHARED}, {"home": SHARED, "known": it.revision}],
    "list_commands": lambda it: [{}, {"text": WORD}, {"capability": "switch"}],
    "search_commands": lambda it: [{"query": WORD}, {"query": "打开", "capabilities": ["switch"]}],
    "parse_query": lambda it: [{**one, "home": home} for home in (SHARED, SECRET) for one in _SPOKEN],
    "resolve_command": lambda it: [
        {**one, "home": home, "session": DIALOGUE} for home in (SHARED, SECRET) for one in (*_SPOKEN, *_REFERENCES)
    ],
    "put_devices": lambda it: [{"devices": [make_device(home, "Mine now", "mine")]} for home in (SHARED, SECRET)],
    "put_commands": lambda it: [
        {
            "commands": [
                {
                    "id": "northern-switch.on",
                    "capability": {"id": "switch"},
                    "command": {"id": "on"},
                    "description": "Mine",
                }
            ]
        }
    ],
    "remove_devices": lambda it: [
        {"home": SECRET, "ids": ["lamp"]},
        {"home": SECRET},
        {"home": SHARED, "ids": ["lamp"]},
        {"home": SHARED},
    ],
    "remove_commands": lambda it: [{"ids": ["northern-switch.on"]}],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home_neighbours(system: System) -> HomeNeighbours:
    return await settle_homes(system)


async def test_every_request_about_homes_is_tried() -> None:
    modules = {"devices", "commands", "command_resolution"}
    about = {endpoint.name for endpoint in ENDPOINTS if endpoint.request.__module__.rsplit(".", 1)[-1] in modules}
    assert about == set(_HOME_CASES)


@pytest.mark.parametrize("name", _HOME_CASES)
async def test_no_request_tells_of_the_homes_of_another_project_or_changes_them(
    home_neighbours: HomeNeighbours, name: str
) -> None:
    before = await home_neighbours.list_owned()
    for case in _HOME_CASES[name](home_neighbours):
        asked: Json = {"project": STRANGER, **case}
        said = await _ask_or_miss(home_neighbours, name, asked)
        assert find_told(said, json.dumps(asked)) == [], asked
    assert await home_neighbours.list_owned() == before


async def _ask_or_miss(neighbours: HomeNeighbours, name: str, asked: Json) -> str:
    """What is replied, also if it is that there is no such home."""
    try:
        return json.dumps(await neighbours.ask(name, asked))
    except RequestError as refused:
        if refused.code is not ErrorCode.NOT_FOUND:
            raise
        return f"{refused} {json.dumps(refused.details)}"


async def test_it_stands_for_nothing_that_another_project_mentioned(home_neighbours: HomeNeighbours) -> None:
    lamp = make_device("cabin", "吸顶灯", "study")
    await home_neighbours.ask("put_devices", {"project": "west", "devices": [lamp]})
    spoken: Json = {"project": "west", "home": "cabin", "text": "打开它", "session": DIALOGUE, "parser": "rules"}
    (resolved,) = objects(await home_neighbours.ask("resolve_command", spoken), "results")
    assert resolved["status"] == "unresolved"
    assert resolved["question"]
