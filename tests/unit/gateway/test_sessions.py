"""Login of browsers: cookie, CSRF token, and the ends of a session."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from skillbus.contracts.gateway.api_keys import Role
from skillbus.gateway.domain.access.session import SessionCookie, SessionText, make_session
from skillbus.gateway.domain.access.session_registry import SESSIONS_MAX
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, World

PLAIN, SECURE = SessionCookie(is_secure=False), SessionCookie(is_secure=True)
CSRF = "X-CSRF-Token"
SEARCH: dict[str, Any] = {"url": "/api/tools/search", "method": "POST", "json": {"query": "x"}}


@asynccontextmanager
async def browser(world: World) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that sends cookies and no key."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.app()), base_url="https://skills.example") as it:
        yield it


async def log_in(client: httpx.AsyncClient, key: str = KEY) -> dict[str, Any]:
    answer = await client.post("/api/session", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 201, answer.text
    session: dict[str, Any] = answer.json()
    return session


async def test_a_login_sets_a_cookie_that_no_script_and_no_other_site_can_use_and_that_has_no_key() -> None:
    world = World(key=KEY)
    key = world.add_key(Role.RUNNER, "mine", "other")
    async with browser(world) as client:
        answer = await client.post("/api/session", headers={"Authorization": f"Bearer {key}"})
        cookie = answer.headers["Set-Cookie"]
        status = (await client.get("/api/session")).json()
    assert answer.headers["Cache-Control"] == "no-store"
    value, _, attributes = cookie.partition("; ")
    assert re.fullmatch(r"skillbus-session=[0-9a-f]{16}_[A-Za-z0-9_-]{43}", value)
    assert set(attributes.split("; ")) == {"HttpOnly", "Max-Age=43200", "Path=/", "SameSite=strict"}
    key_id, secret = key.split("_", 2)[1:]
    assert key_id not in value
    assert secret not in value
    assert status == answer.json()
    assert (status["name"], status["role"], status["projects"]) == (key_id, "runner", ["mine", "other"])
    ends_at = datetime.fromisoformat(status["expires_at"])
    assert timedelta(hours=11) < ends_at - datetime.now(UTC) <= timedelta(hours=12)


async def test_behind_tls_the_cookie_is_for_https_and_this_host_only() -> None:
    world = World(GatewaySettings(tls_in_front=True), key=KEY)
    async with browser(world) as client:
        answer = await client.post("/api/session", headers={"Authorization": f"Bearer {KEY}"})
        assert (await client.get("/api/session")).json()["name"] == "owner"
        plain = {"Cookie": f"skillbus-session={client.cookies['__Host-skillbus-session']}"}
        async with browser(world) as other:
            assert (await other.get("/api/session", headers=plain)).status_code == 401
    assert answer.headers["Set-Cookie"].startswith("__Host-skillbus-session=")
    assert "; Secure" in answer.headers["Set-Cookie"]
    assert "domain" not in answer.headers["Set-Cookie"].lower()


async def test_a_change_with_the_cookie_needs_its_token_and_reading_does_not() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        mine = await log_in(client)
        async with browser(world) as other:
            foreign = await log_in(other)
        assert (await client.get("/metrics")).status_code == 200
        for token in (None, "", "x", foreign["csrf_token"], mine["csrf_token"][:-1], "\xe9"):
            headers = {} if token is None else {CSRF: token.encode("latin-1")}
            refused = await client.request(**SEARCH, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert CSRF in refused.json()["detail"]
        assert not world.caller.asked
        await client.request(**SEARCH, headers={CSRF: mine["csrf_token"]})
    assert [name for name, _ in world.caller.asked] == ["search_tools"]


async def test_a_session_ends_at_the_logout_for_every_copy_of_its_cookie() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        session = await log_in(client)
        copied = {"Cookie": f"skillbus-session={client.cookies['skillbus-session']}"}
        refused = await client.delete("/api/session")
        ended = await client.delete("/api/session", headers={CSRF: session["csrf_token"]})
        assert "skillbus-session" not in client.cookies
        after = await client.get("/api/session", headers=copied)
    assert (refused.status_code, ended.status_code) == (403, 204)
    assert 'skillbus-session=""; HttpOnly; Max-Age=0' in ended.headers["Set-Cookie"]
    assert (after.status_code, after.json()["code"]) == (401, "unauthorized")
    assert "log in again" in after.json()["detail"]


async def test_a_session_has_the_rights_of_its_key_and_ends_with_it() -> None:
    world = World(key=KEY)
    key = world.add_key(Role.RUNNER, "mine")
    async with browser(world) as client:
        session = await log_in(client, key)
        with_token = {CSRF: session["csrf_token"]}
        assert (
            await client.post("/api/keys", json={"label": "x", "projects": ["mine"]}, headers=with_token)
        ).status_code == 403
        assert (await client.get("/api/tools?project=other")).status_code == 403
        async with world.client() as owner:
            await owner.delete(f"/api/keys/{session['name']}")
        after = await client.get("/api/session")
    assert after.status_code == 401
    assert "revoked" in after.json()["detail"]


async def test_a_session_lasts_no_longer_than_its_key_and_than_its_lifetime() -> None:
    world = World(key=KEY)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    async with browser(world) as client:
        session = await log_in(client, world.add_key(Role.READER, "mine", expires_at=soon))
        assert datetime.fromisoformat(session["expires_at"]) == soon
    async with browser(world) as client:
        await log_in(client)
        (record,) = [it for it in world.session_ring.records if it.key_id == "owner"]
        past = datetime.now(UTC) - timedelta(seconds=1)
        world.session_ring.put_record(record.model_copy(update={"expires_at": past}))
        assert (await client.get("/api/session")).status_code == 401


async def test_a_session_of_the_owner_ends_with_another_owners_key() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        await log_in(client)
        world.key = f"{KEY}-of-another"
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(world.app()), base_url="https://skills.example", cookies=client.cookies
        ) as later:
            assert (await later.get("/api/session")).status_code == 401


async def test_a_session_of_a_key_that_is_gone_lets_nobody_in() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        session = await log_in(client, world.add_key(Role.READER, "mine"))
        world.key_ring.drop_record(session["name"])
        assert (await client.get("/api/session")).status_code == 401


async def test_a_key_made_in_a_session_is_made_by_its_key_and_outlives_the_session() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        session = await log_in(client, world.add_key(Role.ADMIN, "*"))
        made = await client.post(
            "/api/keys", json={"label": "x", "projects": ["mine"]}, headers={CSRF: session["csrf_token"]}
        )
    assert made.status_code == 201
    assert (made.json()["created_by"], made.json()["expires_at"]) == (session["name"], None)


async def test_the_key_of_the_header_wins_over_the_cookie() -> None:
    world = World(key=KEY)
    reader = world.add_key(Role.READER, "mine")
    async with browser(world) as client:
        await log_in(client)
        status = await client.get("/api/session", headers={"Authorization": f"Bearer {reader}"})
        written = await client.request(**SEARCH, headers={"Authorization": f"Bearer {reader}"})
        for wrong in ("Bearer wrong", "Basic eDp5", ""):
            assert (await client.get("/api/session", headers={"Authorization": wrong})).status_code == 401
    assert (status.json()["name"], status.json()["csrf_token"]) == (reader.split("_")[1], None)
    assert written.status_code == 503  # the reader's key needs no token, and no retriever is running


async def test_a_cookie_logs_nobody_in_again_and_is_no_key() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        session = await log_in(client)
        again = await client.post("/api/session", headers={CSRF: session["csrf_token"]})
        value = client.cookies["skillbus-session"]
    async with browser(world) as client:
        as_key = await client.get("/api/session", headers={"Authorization": f"Bearer {value}"})
        key_as_cookie = await client.get("/api/session", headers={"Cookie": f"skillbus-session={KEY}"})
        with_key_only = await client.delete("/api/session", headers={"Authorization": f"Bearer {KEY}"})
    assert (again.status_code, as_key.status_code, key_as_cookie.status_code) == (400, 401, 401)
    assert with_key_only.status_code == 400


async def test_a_gateway_without_a_key_says_so_and_has_no_login() -> None:
    async with World().client() as client:
        status = (await client.get("/api/session")).json()
        login = await client.post("/api/session")
    assert (status["name"], status["role"], status["csrf_token"]) == ("local", "admin", None)
    assert (login.status_code, login.json()["code"]) == (400, "invalid_request")


async def test_the_oldest_session_of_a_key_ends_when_there_are_too_many() -> None:
    world = World(key=KEY)
    async with browser(world) as first, browser(world) as second, browser(world) as more:
        await log_in(first)
        await log_in(second)
        for _ in range(SESSIONS_MAX - 1):
            await log_in(more)
        statuses = [(await client.get("/api/session")).status_code for client in (first, second, more)]
    assert statuses == [401, 200, 200]


async def test_before_the_sessions_are_read_a_browser_is_told_to_come_back() -> None:
    world = World(key=KEY)
    async with browser(world) as client:
        await log_in(client)
        world.session_ring.is_loaded = False
        early = await client.get("/api/session")
    assert (early.status_code, early.json()["code"]) == (503, "unavailable")


async def test_a_cookie_is_in_no_log_and_no_repr_and_its_record_has_no_secret() -> None:
    world = World(key=KEY)
    with capture_logs() as logs:
        async with browser(world) as client:
            session = await log_in(client)
            await client.get("/api/session")
            value = client.cookies["skillbus-session"]
    text = PLAIN.parse_header(f"skillbus-session={value}")
    (record,) = world.session_ring.records
    assert text is not None
    for secret in (text.secret, session["csrf_token"]):
        assert secret not in str(logs) + repr(text) + repr(record) + record.model_dump_json()
    assert record.verifier not in repr(record)


def pair(name: str, value: str) -> str:
    return f"{name}={value}"


OTHER_PAIRS = st.lists(
    st.builds(pair, st.text(max_size=20), st.text(max_size=20)).map(lambda text: text.replace(";", ","))
    | st.text(st.characters(exclude_characters=";"), max_size=20),
    max_size=5,
).map(lambda pairs: [it for it in pairs if it.partition("=")[0].strip(" \t") not in {PLAIN.name, SECURE.name}])
COOKIES = st.sampled_from([PLAIN, SECURE])


@given(COOKIES, st.text())
def test_no_header_breaks_the_parser_and_only_a_whole_session_is_one(cookie: SessionCookie, header: str) -> None:
    for text in (header, pair(cookie.name, header), pair(cookie.name, f"{make_session().reveal()}{header}")):
        parsed = cookie.parse_header(text)
        if parsed is not None:
            assert pair(cookie.name, parsed.reveal()) in text


@given(COOKIES, OTHER_PAIRS, OTHER_PAIRS)
def test_a_session_is_found_among_other_cookies(cookie: SessionCookie, before: list[str], after: list[str]) -> None:
    session = make_session()
    mine = pair(cookie.name, session.reveal())
    assert cookie.parse_header("; ".join([*before, mine, *after])) == session
    assert cookie.parse_header(";".join([*before, mine, *after, mine])) == session
    assert cookie.parse_header("; ".join([*before, *after])) is None


@given(COOKIES, OTHER_PAIRS)
def test_two_sessions_in_one_header_are_none(cookie: SessionCookie, others: list[str]) -> None:
    for second in (make_session().reveal(), "", "x"):
        pairs = [pair(cookie.name, make_session().reveal()), *others, pair(cookie.name, second)]
        assert cookie.parse_header("; ".join(pairs)) is None


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda it: f'"{it}"', lambda it: it[:-1], lambda it: f"{it}A", lambda it: f"{it}\n", lambda it: ""],
)
def test_a_value_that_is_not_exactly_a_session_is_none(change: Any) -> None:
    value = SessionText("0123456789abcdef", "s" * 43).reveal()
    assert PLAIN.parse_header(pair(PLAIN.name, value)) is not None
    assert PLAIN.parse_header(pair(PLAIN.name, change(value))) is None
    assert PLAIN.parse_header(pair(SECURE.name, value)) is None
    assert PLAIN.parse_header(pair(PLAIN.name.upper(), value)) is None
