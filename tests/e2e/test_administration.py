"""The work of an operator: events that no handler can read, and the log of what administrators did."""

import json
from collections.abc import Sequence
from typing import Any, Final

import httpx
import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.resources import EVENTS, LEARNER_USES

from .conftest import Json, System, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(system: System) -> list[Json]:
    answer = await system.http.get("/api/dead-letters", params={"consumer": LEARNER_USES.name})
    assert answer.status_code == 200, answer.text
    letters: list[Json] = answer.json()["dead_letters"]
    return letters


async def test_an_unreadable_event_is_listed_shown_replayed_and_dropped(system: System) -> None:
    subject = "skillbus.evt.knowledge.used.default"
    await system.standalone.bus.jetstream.publish(subject, b"not json", stream=EVENTS.name)
    (letter,) = await eventually(lambda: listed(system), bool)
    shown = (await system.http.get(f"/api/dead-letters/{letter['sequence']}")).json()
    assert (shown["subject"], shown["body"]) == (subject, "not json")

    replayed = await system.http.post(f"/api/dead-letters/{letter['sequence']}/replay")
    assert replayed.status_code == 200, replayed.text
    (again,) = await eventually(
        lambda: listed(system), lambda letters: letters and letters[0]["sequence"] != letter["sequence"]
    )
    assert (await system.http.delete(f"/api/dead-letters/{again['sequence']}")).status_code == 200
    assert (await system.http.delete(f"/api/dead-letters/{again['sequence']}")).status_code == 404
    assert await listed(system) == []


CANARY: Final = "canary5f1e9c"
"""Text in every string of a request that is neither an id nor a choice."""
Step = tuple[str, str, str, dict[str, Any]]
"""Act, method, path and the rest of a request."""


def list_steps() -> Sequence[Step]:
    """One request for each administrative act that needs nothing else, in an order in which they can be done."""
    pack = {"package": ("package.zip", skill_package("paint-wall", CANARY, {"scripts/main.py": f"print({CANARY!r})"}))}
    draft = {"type": "business_rule", "title": CANARY, "content": CANARY, "tags": [CANARY], "reason": CANARY}
    tool = {"id": "crm.one", "name": CANARY, "description": CANARY, "metadata": {CANARY: CANARY}}
    device = {"id": "lamp-1", "name": CANARY, "aliases": [CANARY], "room": CANARY, "type": "light"}
    of_lamps = {"id": "lamp.on", "capability": {"id": "lamp"}, "command": {"id": "on"}, "description": {"en": CANARY}}
    address, secret = f"http://127.0.0.1:9/{CANARY}", {"Authorization": f"Bearer {CANARY}"}
    server = {"name": "files", "url": f"http://127.0.0.1:9/{CANARY}", "headers": secret, "timeout_s": 1}
    skill, providers = "/api/skills/paint-wall", "/api/embedding/providers"
    return (
        ("create_provider", "POST", providers, {"json": {"name": "one", "kind": "openai", "base_url": address}}),
        ("update_provider", "PATCH", f"{providers}/one", {"json": {"api_key": f"env:{CANARY}", "base_url": address}}),
        ("test_provider", "POST", f"{providers}/one/test", {"json": {"model": CANARY}}),
        ("create_model", "POST", "/api/embedding/models", {"json": {"provider": "one", "name": "m", "dimensions": 8}}),
        ("update_model", "PATCH", "/api/embedding/models/m", {"json": {"query_prefix": CANARY}}),
        ("delete_model", "DELETE", "/api/embedding/models/m", {}),
        ("create_model", "POST", "/api/embedding/models", {"json": {"provider": "one", "name": "c", "kind": "chat"}}),
        ("test_chat_model", "POST", "/api/embedding/models/c/test", {}),
        ("delete_model", "DELETE", "/api/embedding/models/c", {}),
        ("delete_provider", "DELETE", f"{providers}/one", {}),
        ("install_skill", "POST", "/api/skills", {"files": pack}),
        ("update_skill", "PATCH", skill, {"json": {"description": f"{CANARY} again"}}),
        ("roll_back_skill", "POST", f"{skill}/rollback", {"json": {}}),
        ("pin_skill", "POST", f"{skill}/pin", {}),
        ("approve_network", "PUT", f"{skill}/network", {"json": {"approved": []}}),
        ("run_skill", "POST", f"{skill}/run", {"json": {"argv": [CANARY], "stdin": CANARY}}),
        ("set_tool_approval", "POST", "/api/tools/skill:paint-wall/approval", {"json": {"required": True}}),
        ("set_tool_state", "POST", f"{skill}/disable", {}),
        ("uninstall_skill", "DELETE", skill, {}),
        ("put_tools", "PUT", "/api/tools", {"content": json.dumps(tool)}),
        ("remove_tools", "DELETE", "/api/tools/crm.one", {}),
        ("put_devices", "PUT", "/api/devices?home=villa", {"json": [device]}),
        ("remove_devices", "DELETE", "/api/devices?home=villa", {}),
        ("put_commands", "PUT", "/api/commands", {"json": [of_lamps]}),
        ("remove_commands", "DELETE", "/api/commands?id=lamp.on", {}),
        ("create_knowledge", "POST", "/api/knowledge", {"json": draft}),
        ("put_knowledge", "POST", "/api/knowledge/import", {"content": json.dumps({**draft, "id": CANARY})}),
        ("set_knowledge_parent", "PUT", "/api/knowledge/projects/team-a", {"json": {"parent": "default"}}),
        ("register_mcp_server", "POST", "/api/mcp-servers", {"json": server}),
        ("refresh_mcp_server", "POST", "/api/mcp-servers/files/refresh", {}),
        ("remove_mcp_server", "DELETE", "/api/mcp-servers/files", {}),
    )


def list_refused_steps() -> Sequence[Step]:
    """One request for each act that needs more, about something that does not exist."""
    return (
        ("accept_tool", "POST", "/api/tools/crm.none/accept", {"json": {"digest": CANARY}}),
        ("update_knowledge", "PUT", "/api/knowledge/none", {"json": {"content": CANARY}}),
        ("archive_knowledge", "DELETE", f"/api/knowledge/none?reason={CANARY}", {}),
        ("restore_knowledge", "POST", "/api/knowledge/none/restore", {"json": {"reason": CANARY}}),
        ("roll_back", "POST", "/api/indexes/none/rollback", {}),
        ("start_switch", "POST", "/api/indexes/none/switch", {}),
        ("replay_dead_letter", "POST", "/api/dead-letters/999/replay", {}),
        ("drop_dead_letter", "DELETE", "/api/dead-letters/999", {}),
    )


async def test_each_act_of_an_administrator_is_one_fact_with_its_key_and_without_its_content(system: System) -> None:
    made = (await system.http.post("/api/keys", json={"label": CANARY, "role": "admin", "projects": ["*"]})).json()
    headers = {"Authorization": f"Bearer {made['key']}", "Skillbus-Actor": CANARY}
    pending = await system.http.post(
        "/api/knowledge", json={"type": "faq", "title": "x", "content": "x", "status": "pending"}
    )
    review = {"ids": [pending.json()["item"]["id"], "none"], "action": "approve", "reason": CANARY}
    done = [*list_steps(), ("review_knowledge", "POST", "/api/knowledge/review", {"json": review})]
    refused = list_refused_steps()
    async with httpx.AsyncClient(base_url=system.standalone.http_url, headers=headers, timeout=60) as http:
        for act, method, path, request in (*done, *refused):
            answer = await http.request(method, path, **request)
            assert answer.is_success == (act in [step[0] for step in done]), (act, answer.text)
        listed = await http.get("/api/audit-log", params={"actor": made["id"], "limit": 200})
    facts = listed.json()["facts"][::-1]
    assert [(fact["act"], fact["outcome"]) for fact in facts] == [
        *((act, "done") for act, *_ in done),
        *((act, "refused") for act, *_ in refused),
    ]
    assert {(fact["door"], fact["actor"], fact["address"]) for fact in facts} == {("http", made["id"], "127.0.0.1")}
    subjects = {fact["act"]: fact["subjects"] for fact in facts}
    assert (subjects["install_skill"], subjects["put_tools"]) == (["paint-wall"], ["crm.one"])
    assert subjects["review_knowledge"] == review["ids"][:1], "only what was reviewed"
    assert all(fact["subjects"] and fact["trace_id"] for fact in facts)
    everything = (await system.http.get("/api/audit-log", params={"limit": 200})).text
    assert "create_api_key" in everything
    assert CANARY not in everything
    assert made["key"][-43:] not in everything
