"""API keys in replicas of the gateway on a real NATS."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.bus.responder import route
from skillbus.common.testing import eventually
from skillbus.contracts.gateway.api_keys import ApiKeyRecord
from skillbus.contracts.resources import API_KEYS
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolsFound
from skillbus.gateway.adapters.keys.kv_api_keys import open_api_keys
from skillbus.gateway.adapters.keys.ring_follower import RingFollower
from skillbus.gateway.domain.access.key_ring import KeyRing
from skillbus.gateway.wiring import open_gateway

from .conftest import OWNER, Serve, make_settings

SEARCH = "/api/tools/search"
BODY = {"query": "x"}


async def create(http: httpx.AsyncClient, **more: JsonValue) -> dict[str, str]:
    answer = await http.post("/api/keys", json={"label": "a test", "projects": ["default"], **more})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    made: dict[str, str] = answer.json()
    assert answer.headers["Location"] == f"/api/keys/{made['id']}"
    return made


def bearer(made: dict[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {made['key']}"}


@pytest.fixture
async def searched(serve: Serve) -> list[SearchTools]:
    """Requests that a retriever got."""
    requests: list[SearchTools] = []

    async def find(request: SearchTools) -> ToolsFound:
        requests.append(request)
        return ToolsFound(results=(), took_ms=1)

    await serve(route(SEARCH_TOOLS, find))
    return requests


async def status(http: httpx.AsyncClient, made: dict[str, str]) -> int:
    return (await http.post(SEARCH, json=BODY, headers=bearer(made))).status_code


async def test_a_key_works_in_every_replica_until_it_is_revoked_in_one(
    http: httpx.AsyncClient, other: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made = await create(http, projects=["acme"])
    assert await status(http, made) == 200
    assert await eventually(lambda: status(other, made), lambda code: code == 200) == 200
    assert {request.project for request in searched} == {"acme"}
    revoked = await other.delete(f"/api/keys/{made['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert await status(other, made) == 401
    assert await eventually(lambda: status(http, made), lambda code: code == 401) == 401
    again = await http.delete(f"/api/keys/{made['id']}")
    assert again.json() == revoked.json()
    assert again.json()["made_keys"] == []


async def test_a_key_outlives_the_gateway_and_its_text_is_nowhere_on_the_bus(
    bus: Bus, bus_settings: BusSettings, http: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made = await create(http)
    async with (
        open_bus(bus_settings, "later", CollectorRegistry()) as later,
        open_gateway(later, make_settings()) as opened,
        httpx.AsyncClient(base_url=opened.url, trust_env=False) as client,
    ):
        assert await status(client, made) == 200
    stored = await bus.jetstream.get_last_msg(f"KV_{API_KEYS.name}", f"$KV.{API_KEYS.name}.key.{made['id']}")
    assert made["id"].encode() in (stored.data or b"")
    assert made["key"][-43:].encode() not in (stored.data or b"")


async def test_an_expired_key_is_refused_and_stays_in_the_list(
    http: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made = await create(http, expires_in_s=1)
    assert await eventually(lambda: status(http, made), lambda code: code == 401) == 401
    (listed,) = (await http.get("/api/keys")).json()["keys"]
    assert (listed["id"], listed["revoked_at"]) == (made["id"], None)
    assert datetime.fromisoformat(listed["expires_at"]) <= datetime.now(UTC)


async def test_the_last_use_is_shown_and_written_once_a_minute(
    bus: Bus, http: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made, unused = await create(http), await create(http, label="unused")

    async def uses() -> dict[str, str | None]:
        return {key["id"]: key["last_used_at"] for key in (await http.get("/api/keys")).json()["keys"]}

    assert await uses() == {made["id"]: None, unused["id"]: None}
    writes = list[str]()

    async def note_write(message: Msg) -> None:
        writes.append(message.subject)

    subscription = await bus.client.subscribe(f"$KV.{API_KEYS.name}.use.*", cb=note_write)
    await asyncio.gather(*(status(http, made) for _ in range(20)))
    shown = await eventually(uses, lambda found: found[made["id"]])
    assert shown[unused["id"]] is None
    await asyncio.gather(*(status(http, made) for _ in range(20)))
    await status(http, unused)  # its write comes after all that the other key could have caused
    await eventually(uses, lambda found: found[unused["id"]])
    await subscription.unsubscribe()
    assert writes == [f"$KV.{API_KEYS.name}.use.{key['id']}" for key in (made, unused)]


async def test_a_key_whose_record_an_operator_deletes_is_refused(
    bus: Bus, http: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made = await create(http)
    await KvRecords(bus, API_KEYS, ApiKeyRecord).purge(f"key.{made['id']}")
    assert await eventually(lambda: status(http, made), lambda code: code == 401) == 401


async def test_after_a_reconnection_a_key_lets_nobody_in_before_all_keys_were_read_again(
    bus_settings: BusSettings, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await create(http)

    async def hear_nothing(_: object, __: Msg) -> None: ...

    monkeypatch.setattr(RingFollower, "on_write", hear_nothing)
    async with (
        open_bus(bus_settings, "deaf", CollectorRegistry()) as bus,
        open_gateway(bus, make_settings()) as deaf,
        httpx.AsyncClient(base_url=deaf.url, headers=bearer(made), trust_env=False) as client,
    ):
        assert (await http.delete(f"/api/keys/{made['id']}")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
        bus.client.stats["reconnects"] += 1

        async def knock() -> int:
            code = (await client.get("/metrics")).status_code
            assert code != 200
            return code

        assert await eventually(knock, lambda code: code == 401) == 401


async def test_a_key_that_ended_long_ago_is_removed_with_those_that_it_made(bus: Bus, http: httpx.AsyncClient) -> None:
    made, ended = await create(http), await create(http)
    now = datetime.now(UTC)
    records = KvRecords(bus, API_KEYS, ApiKeyRecord)
    (stored,) = [it async for key, it in records.iterate() if key == f"key.{ended['id']}"]

    async def store(key_id: str, created_by: str, revoked_days_ago: int | None) -> None:
        revoked_at = None if revoked_days_ago is None else now - timedelta(days=revoked_days_ago)
        changes = {"id": key_id, "created_by": created_by, "revoked_at": revoked_at}
        await records.save(f"key.{key_id}", stored.record.model_copy(update=changes), 0)

    # In the order of their removal, which the last one tells: made ones first, then by id.
    await store("madebyit31", "0000000031", None)
    await store("0000000029", "owner", 29)
    await store("0000000031", "owner", 31)
    async with open_api_keys(bus, KeyRing()):

        async def list_ids() -> set[str]:
            return {key.removeprefix("key.") async for key, _ in records.iterate("key.*")}

        left = await eventually(list_ids, lambda ids: "0000000031" not in ids)
    assert left == {made["id"], ended["id"], "0000000029"}


async def test_a_damaged_record_hides_no_other_key(
    bus: Bus, http: httpx.AsyncClient, other: httpx.AsyncClient, searched: list[SearchTools]
) -> None:
    made = await create(http)
    bucket = await bus.jetstream.key_value(API_KEYS.name)
    await bucket.put("key.damaged00", b'{"id": "damaged00"')
    assert await status(http, made) == 200
    assert [key["id"] for key in (await other.get("/api/keys")).json()["keys"]] == [made["id"]]


async def test_keys_whose_first_reading_is_cancelled_leave_no_subscription(
    bus: Bus, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def begin(_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RingFollower, "load_ring", begin)
    ring, heard = KeyRing(), asyncio.Event()
    opening = asyncio.create_task(open_api_keys(bus, ring).__aenter__())
    await asyncio.wait_for(begun.wait(), 10)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    async def note_write(_: Msg) -> None:
        heard.set()

    subscription = await bus.client.subscribe(f"$KV.{API_KEYS.name}.key.*", cb=note_write)
    await create(http)
    await asyncio.wait_for(heard.wait(), 10)
    await subscription.unsubscribe()
    assert not ring.ids


async def test_an_administrator_of_a_project_makes_and_sees_keys_of_it_only(http: httpx.AsyncClient) -> None:
    admin = bearer(await create(http, role="admin", projects=["acme"]))
    foreign = await create(http, label="foreign", projects=["other"])

    async def try_to_create(**more: JsonValue) -> int:
        body = {"label": "x", "role": "admin", "projects": ["acme"], **more}
        return (await http.post("/api/keys", json=body, headers=admin)).status_code

    assert await try_to_create() == 201
    assert await try_to_create(projects=["other"]) == 403
    assert await try_to_create(projects=["acme", "other"]) == 403
    assert await try_to_create(projects=["*"]) == 403
    listed = (await http.get("/api/keys", headers=admin)).json()["keys"]
    assert {project for key in listed for project in key["projects"]} == {"acme"}
    refused = await http.delete(f"/api/keys/{foreign['id']}", headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


@asynccontextmanager
async def limited(bus: Bus, **settings: int) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        open_gateway(bus, make_settings(**settings)) as opened,
        httpx.AsyncClient(base_url=opened.url, headers=OWNER, trust_env=False) as client,
    ):
        yield client


async def test_a_key_that_asks_too_often_is_told_when_to_come_back_and_no_other_key_suffers(
    bus: Bus, searched: list[SearchTools]
) -> None:
    async with limited(bus, requests_per_minute=3) as http:
        busy, calm = await create(http), await create(http)
        answers = [await http.post(SEARCH, json=BODY, headers=bearer(busy)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        refused = answers[-1]
        assert refused.json()["code"] == "overloaded"
        assert 1 <= int(refused.headers["Retry-After"]) <= 20
        assert await status(http, calm) == 200
        assert [(await http.post(SEARCH, json=BODY)).status_code for _ in range(5)] == [200] * 5
