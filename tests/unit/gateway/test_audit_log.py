"""Who is named in the audit log, which refusals are recorded, and that no administrative operation is left out."""

from datetime import UTC, datetime

import pytest

from skillbus.common.bus import headers as bus_headers
from skillbus.contracts.audit_log import AuditDoor, AuditOutcome
from skillbus.contracts.catalogue import ENDPOINTS
from skillbus.contracts.embedder.registry import GET_MODEL, ModelKind, ModelRecord
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import ALL_PROJECTS, KEY_ACTS, Role
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG, AuditLogListed, ListAuditLog
from skillbus.contracts.indexer.skills import PIN_SKILL
from skillbus.contracts.message import Message
from skillbus.gateway.settings import GatewaySettings

from .fakes import CALCULATE, KEY, World
from .test_roles import MINE, OTHER, list_operations

ACTS = {endpoint.name for endpoint in ENDPOINTS if endpoint.act is not None}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAT_MODEL = ModelRecord(
    id="0" * 32,
    provider="remote",
    name="gpt",
    kind=ModelKind.CHAT,
    is_default=True,
    fingerprint=None,
    version=1,
    created_at=NOW,
    updated_at=NOW,
)
ONLY_LOOK = {"check_skill"}
"""Operations for editors or administrators that change nothing, although their method is not GET."""
FORGED = {"Skillbus-Actor": "mallory", "Skillbus-Door": "bus", "Skillbus-Address": "192.0.2.9"}


@pytest.fixture
def world() -> World:
    return World(GatewaySettings(upload_patience_s=0), key=KEY)


async def test_every_operation_that_needs_an_editor_or_an_administrator_has_a_name_in_the_audit_log(
    world: World,
) -> None:
    world.caller.on(GET_MODEL, lambda _: CHAT_MODEL)  # `test_model` looks at the kind of a model first
    unnamed, acts = [], set()
    async with world.client() as client:
        for operation in await list_operations():
            if operation.members["x-role"] not in {Role.EDITOR, Role.ADMIN} or operation.method == "get":
                continue
            world.caller.asked.clear()
            await client.request(**operation.make_request(None))
            named = {name for name, _ in world.caller.asked} & ACTS | {operation.id} & KEY_ACTS.keys()
            acts |= named
            if bool(named) == (operation.id in ONLY_LOOK):
                unnamed.append((str(operation), world.caller.asked))
    assert not unnamed, "give the endpoint an `act`, or list the operation in ONLY_LOOK"
    for_runners = {"run_skill", "run_program", "decide_call"}
    assert ACTS | KEY_ACTS.keys() == acts | for_runners, "they need a runner, and are recorded too"


async def test_a_request_names_its_key_and_address_whatever_its_headers_say(world: World) -> None:
    origins: list[bus_headers.Origin | None] = []

    def pin(_: Message) -> Message:
        origins.append(bus_headers.origin.get())
        return CALCULATE

    world.caller.on(PIN_SKILL, pin)
    key = world.add_key(Role.EDITOR, MINE)
    async with world.client(key) as client:
        assert (await client.post("/api/skills/calculate/pin", headers=FORGED)).status_code == 200
    async with world.client() as client:
        assert (await client.post("/api/skills/calculate/pin", headers=FORGED)).status_code == 200
    assert origins == [bus_headers.Origin(AuditDoor.HTTP, actor, "127.0.0.1") for actor in (key.split("_")[1], "owner")]


async def test_a_key_that_asks_for_more_than_its_role_or_projects_is_recorded_once(world: World) -> None:
    reader, admin = world.add_key(Role.READER, MINE), world.add_key(Role.ADMIN, MINE)
    operations = await list_operations()
    for key, refused in (
        (reader, [it.id for it in operations if it.members["x-role"] in {Role.EDITOR, Role.ADMIN}]),
        (admin, [it.id for it in operations if it.members.get("x-all-projects")]),
    ):
        world.audit_log.facts.clear()
        async with world.client(key) as client:
            for operation in operations:
                if operation.id in refused or operation.id == "run_skill":
                    await client.request(**operation.make_request(None), headers=FORGED)
        facts = world.audit_log.facts
        assert [fact.act for fact in facts] == refused
        assert {(fact.outcome, fact.code, fact.actor, fact.project, fact.address) for fact in facts} == {
            (AuditOutcome.REFUSED, ErrorCode.FORBIDDEN, key.split("_")[1], MINE, "127.0.0.1")
        }


@pytest.mark.parametrize("place", [None, "query"])
async def test_a_key_that_names_another_project_is_recorded_at_every_operation_for_editors(
    world: World, place: str | None
) -> None:
    key = world.add_key(Role.ADMIN, MINE)
    asked = []
    async with world.client(key) as client:
        for operation in await list_operations():
            if operation.project_place is None or operation.members["x-role"] not in {Role.EDITOR, Role.ADMIN}:
                continue
            asked.append(operation.id)
            await client.request(**operation.make_request(OTHER, place=place))
    facts = world.audit_log.facts
    assert [fact.act for fact in facts] == asked
    assert {(fact.outcome, fact.actor, fact.project) for fact in facts} == {("refused", key.split("_")[1], MINE)}


async def test_an_editor_who_would_take_a_tool_out_of_quarantine_is_recorded(world: World) -> None:
    async with world.client(world.add_key(Role.EDITOR, MINE)) as client:
        removed = [
            await client.delete("/api/tools/mcp:weather/forecast"),
            await client.delete("/api/tools", params={"id": "mcp:weather/forecast"}),
        ]
        await client.delete("/api/tools/mcp:weather/forecast", params={"project": OTHER})
        await client.post("/api/tools/search", json={"query": "x", "project": OTHER})  # for readers: no act
    assert [answer.status_code for answer in removed] == [403, 403]
    assert [fact.act for fact in world.audit_log.facts] == ["remove_tool", "remove_tools", "remove_tool"]
    assert {fact.code for fact in world.audit_log.facts} == {ErrorCode.FORBIDDEN}


async def test_strangers_and_probes_leave_no_fact(world: World) -> None:
    async with world.client("wrong") as client:
        assert (await client.delete("/api/skills/calculate")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
    assert world.audit_log.facts == []


async def test_a_key_that_is_made_and_revoked_leaves_two_facts_without_its_text_and_label(world: World) -> None:
    body = {"label": "canary", "role": "runner", "projects": ["a", "b"], "expires_in_s": 60}
    async with world.client() as client:
        made = (await client.post("/api/keys", json=body)).json()
        await client.delete(f"/api/keys/{made['id']}")
        await client.delete("/api/keys/0000000000")
    created, revoked, unknown = world.audit_log.facts
    assert (created.act, created.subjects, created.outcome) == ("create_api_key", (made["id"],), "done")
    assert created.details == {"role": "runner", "projects": ("a", "b")}
    assert (revoked.act, revoked.subjects, revoked.outcome) == ("revoke_api_key", (made["id"],), "done")
    assert (unknown.outcome, unknown.code) == (AuditOutcome.REFUSED, ErrorCode.NOT_FOUND)
    assert {(fact.actor, fact.door, fact.service) for fact in world.audit_log.facts} == {("owner", "http", "gateway")}
    written = repr(world.audit_log.facts)
    assert "canary" not in written
    assert made["key"][-43:] not in written


async def test_a_key_whose_making_cannot_be_recorded_is_not_shown_and_a_refusal_stays_one(world: World) -> None:
    world.audit_log.failure = RequestError(ErrorCode.UNAVAILABLE, "The audit log is not available.")
    async with world.client() as client:
        made = await client.post("/api/keys", json={"label": "x", "projects": ["a"]})
    async with world.client(world.add_key(Role.READER, ALL_PROJECTS)) as client:
        refused = await client.get("/api/keys")
    assert (made.status_code, made.json()["details"]) == (500, {"done": True})
    assert "skb_" not in made.text
    assert refused.status_code == 403


async def test_the_log_is_listed_for_a_project_or_by_the_owner_for_all(world: World) -> None:
    asked: list[ListAuditLog] = []

    def answer(request: Message) -> Message:
        assert isinstance(request, ListAuditLog)
        asked.append(request)
        return AuditLogListed(facts=())

    world.caller.on(LIST_AUDIT_LOG, answer)
    async with world.client() as client:
        assert (await client.get("/api/audit-log")).json() == {"facts": [], "next": None}
        wanted = {"act": "pin_skill", "actor": "owner", "subject": "calculate", "before": "7", "limit": "9"}
        assert (await client.get("/api/audit-log", params=wanted)).status_code == 200
        assert (await client.get("/api/audit-log", params={"act": "no act"})).status_code == 400
    async with world.client(world.add_key(Role.ADMIN, MINE)) as client:
        assert (await client.get("/api/audit-log")).status_code == 200
    assert asked == [
        ListAuditLog(),
        ListAuditLog(act="pin_skill", actor="owner", subject="calculate", before=7, limit=9),
        ListAuditLog(project=MINE),
    ]
