"""Projects that have nothing to do with one another, and what one of them knows."""

import json
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from skillbus.common.testing import WAIT_S, eventually
from skillbus.contracts.catalogue import ENDPOINTS

from .conftest import Json, System

OWNER: Final = "north"
STRANGER: Final = "south"
ABOVE: Final = "upland"
"""The parent of both."""
WORD: Final = "quokkazanzibar"
"""Stands in each item of the owner, and nowhere else; so do the other secrets."""
KEY: Final = "key-of-the-north"
EXTERNAL_ID: Final = "northern-1"
STATUSES: Final[list[JsonValue]] = ["active", "pending", "archived"]
_SECRET: Final[Json] = {
    "tags": ["northern-tag"],
    "source": "northern-source",
    "owner": "northern-owner",
    "actor": "northern-actor",
    "reason": "northern-why",
    "scope": "/northern/rooms",
}
_SECRETS: Final = (WORD, "northern-")
_BY_NAME: Final = {endpoint.name: endpoint for endpoint in ENDPOINTS if endpoint.name != "health"}


@dataclass(frozen=True, slots=True)
class Item:
    """One of knowledge."""

    id: str
    created_at: str
    draft: Json
    """What would make the same."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the projects have."""

    system: System
    active: Item
    """At version 2."""
    pending: Item
    archived: Item
    inherited: Item
    request_id: str
    """Of a search of the owner."""
    cursor: JsonValue
    """Of a list of the owner."""
    job: str
    """Job of the owner that learned something from a log."""
    learned: str
    """Item that it proposed."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the owner's items."""
        return (self.active.id, self.pending.id, self.archived.id, self.learned)

    def told_by(self, said: str, asked: str) -> list[str]:
        """What of the owner's is said, and was not asked with."""
        return [
            secret
            for secret in (*_SECRETS, *self.ids, self.request_id, self.job)
            if secret in said and secret not in asked
        ]

    async def ask(self, name: str, asked: Json) -> Json:
        return await ask(self.system, name, asked)

    async def owned(self) -> list[Json]:
        """All that the owner can see of its own."""
        listed = await self.ask("list_knowledge", {"project": OWNER, "statuses": STATUSES})
        assert listed["total"] == len(self.ids)
        histories = [await self.ask("get_knowledge_history", {"project": OWNER, "id": item}) for item in self.ids]
        told = [await self.ask(name, {"project": OWNER}) for name in ("list_knowledge_audit", "get_knowledge_stats")]
        return [listed, *histories, *told]


async def ask(system: System, name: str, asked: Json) -> Json:
    """Send a request by its name. Raises RequestError."""
    endpoint = _BY_NAME[name]
    reply = await system.standalone.bus.caller.call(endpoint, endpoint.request.model_validate(asked))
    said: Json = json.loads(reply.model_dump_json())
    return said


def objects(said: Json, field: str) -> list[Json]:
    """A list of objects in a reply."""
    found = said[field]
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]


async def settled(system: System) -> Neighbours:
    """Make them, and wait until what was used is counted."""
    for project in (OWNER, STRANGER):
        await ask(system, "set_knowledge_parent", {"project": project, "parent": ABOVE})
    active = await _create(system, OWNER, f"The {WORD} rule", external_id=EXTERNAL_ID, idempotency_key=KEY, **_SECRET)
    changed: Json = {"project": OWNER, "id": active.id, "content": f"The {WORD} rule, changed."}
    await ask(system, "update_knowledge", {**changed, "actor": "northern-actor"})
    pending = await _create(system, OWNER, f"A {WORD} that waits", status="pending", **_SECRET)
    archived = await _create(system, OWNER, f"A {WORD} that is gone", **_SECRET)
    await ask(system, "archive_knowledge", {"project": OWNER, "id": archived.id})
    await _create(system, STRANGER, "A rule of one's own")
    inherited = await _create(system, ABOVE, "A rule for both")

    query: Json = {"project": OWNER, "query": f"the {WORD} rule"}
    found = await ask(system, "search_knowledge", {**query, "threshold": 0})
    await ask(system, "give_feedback", {**query, "id": active.id, "helpful": True, "actor": "northern-actor"})
    page = await ask(system, "list_knowledge", {"project": OWNER, "limit": 1, "statuses": STATUSES})
    await eventually(
        lambda: ask(system, "get_knowledge_stats", {"project": OWNER}), lambda stats: stats["searches"] == 1
    )
    job, learned = await _learn(system)
    request_id, cursor = str(found["request_id"]), page["next"]
    return Neighbours(system, active, pending, archived, inherited, request_id, cursor, job, learned)


async def _learn(system: System) -> tuple[str, str]:
    """Let the owner learn from a log. Return the job and the item that it proposed."""
    log = "".join(f"2026-01-01 10:00:{second:02} ERROR [{WORD}] connection refused\n" for second in range(9)).encode()
    content: Json = {
        "size_bytes": len(log),
        "sha256": sha256(log).hexdigest(),
        "inline": b64encode(log).decode(),
    }
    asked: Json = {
        "project": OWNER,
        "source": "northern-source",
        "task": "northern-task",
        "files": [{"name": "northern-file.log", "content": content}],
    }
    started = (await ask(system, "start_learning", asked))["job"]
    assert isinstance(started, dict)
    job: Json = {"project": OWNER, "id": str(started["id"])}
    await eventually(
        lambda: ask(system, "get_learning_job", job), lambda now: now["status"] == "done", wait_s=4 * WAIT_S
    )
    (item,) = objects(await ask(system, "get_learning_report", job), "items")
    return str(started["id"]), str(item["item_id"])


async def _create(system: System, project: str, title: str, **more: JsonValue) -> Item:
    draft: Json = {"type": "business_rule", "title": title, "content": f"{title}. Written down.", **more}
    item = (await ask(system, "create_knowledge", {**draft, "project": project}))["item"]
    assert isinstance(item, dict)
    for told in ("actor", "reason", "external_id", "idempotency_key"):
        draft.pop(told, None)
    return Item(str(item["id"]), str(item["created_at"]), draft)
