"""Sessions of browsers in replicas of the gateway on a real NATS."""

import httpx
from prometheus_client import CollectorRegistry

from skillbus.common.bus.connection import Bus, BusSettings, open_bus
from skillbus.common.bus.kv_records import KvRecords
from skillbus.common.testing import eventually
from skillbus.contracts.gateway.sessions import SessionRecord
from skillbus.contracts.resources import API_KEYS
from skillbus.gateway.adapters.keys.kv_sessions import open_sessions
from skillbus.gateway.domain.access.session import SessionRing
from skillbus.gateway.wiring import open_gateway

from .conftest import OWNER, make_settings


async def log_in(http: httpx.AsyncClient, headers: dict[str, str] = OWNER) -> dict[str, str]:
    """Log in, and return the headers with which a browser writes."""
    answer = await http.post("/api/session", headers=headers)
    assert answer.status_code == 201, answer.text
    name, value = next(iter(answer.cookies.items()))
    http.cookies.clear()
    return {"Cookie": f"{name}={value}", "X-CSRF-Token": answer.json()["csrf_token"]}


async def get_status(http: httpx.AsyncClient, session: dict[str, str]) -> int:
    request = http.build_request("GET", "/api/session", headers=session)
    del request.headers["Authorization"]
    return (await http.send(request)).status_code


async def test_a_session_works_in_every_replica_also_after_a_restart_until_its_logout_in_one(
    bus: Bus, bus_settings: BusSettings, http: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    session = await log_in(http)
    assert await get_status(http, session) == 200
    assert await eventually(lambda: get_status(other, session), lambda code: code == 200) == 200
    async with (
        open_bus(bus_settings, "restarted", CollectorRegistry()) as later,
        open_gateway(later, make_settings()) as opened,
        httpx.AsyncClient(base_url=opened.url, headers=OWNER, trust_env=False) as restarted,
    ):
        assert await get_status(restarted, session) == 200
    records = KvRecords(bus, API_KEYS, SessionRecord)
    (stored,) = [it.record async for _, it in records.iterate("session.*")]
    _, _, secret = session["Cookie"].partition("=")[2].partition("_")  # the secret itself may hold underlines
    assert secret not in stored.model_dump_json()
    logout = other.build_request("DELETE", "/api/session", headers=session)
    del logout.headers["Authorization"]
    assert (await other.send(logout)).status_code == 204
    assert await get_status(other, session) == 401
    assert await eventually(lambda: get_status(http, session), lambda code: code == 401) == 401


async def test_a_session_ends_in_every_replica_when_its_key_is_revoked_and_its_record_is_removed(
    bus: Bus, http: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    made = (await http.post("/api/keys", json={"label": "a test", "projects": ["default"]})).json()
    session = await log_in(http, {"Authorization": f"Bearer {made['key']}"})
    assert await eventually(lambda: get_status(other, session), lambda code: code == 200) == 200
    await http.delete(f"/api/keys/{made['id']}")
    assert await get_status(http, session) == 401
    assert await eventually(lambda: get_status(other, session), lambda code: code == 401) == 401
    records = KvRecords(bus, API_KEYS, SessionRecord)
    (stored,) = [it.record async for _, it in records.iterate("session.*")]
    long_ago = stored.created_at.replace(year=2020)
    await records.save(f"session.{'0' * 16}", stored.model_copy(update={"id": "0" * 16, "expires_at": long_ago}), 0)
    async with open_sessions(bus, SessionRing()):

        async def list_ids() -> list[str]:
            return [it.record.id async for _, it in records.iterate("session.*")]

        assert await eventually(list_ids, lambda ids: len(ids) == 1) == [stored.id]
