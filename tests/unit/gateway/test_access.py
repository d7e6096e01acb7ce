import ipaddress
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from starlette.types import Message, Scope
from structlog.testing import capture_logs

from skillbus.common.runner import StartError
from skillbus.contracts.errors import RequestError
from skillbus.contracts.gateway.api_keys import ApiKeyCreated, Role
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS
from skillbus.gateway.adapters.start_checks import check_start
from skillbus.gateway.domain.access.api_key import make_key
from skillbus.gateway.domain.access.authenticator import Authenticator, Visit
from skillbus.gateway.domain.access.startup import (
    OwnerKeyInvalidError,
    OwnerKeyRequiredError,
    TlsRequiredError,
    check_address,
    hash_owner_key,
)
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, World

LOCAL = Authenticator()
KEYED = Authenticator(hash_owner_key(KEY))


def refusal(visit: Visit, *, keyed: bool) -> str | None:
    try:
        (KEYED if keyed else LOCAL).authenticate(visit)
    except RequestError as error:
        return str(error.code)
    return None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost", "LocalHost:9", "[::1]:8080", "127.1.2.3"])
def test_without_a_key_loopback_names_are_served(host: str) -> None:
    assert refusal(Visit("GET", "/api/skills", host=host), keyed=False) is None


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "[::1", "a@b:c:d"]
)
def test_without_a_key_other_names_are_refused_so_that_dns_rebinding_fails(host: str | None) -> None:
    assert refusal(Visit("GET", "/api/skills", host=host), keyed=False) == "forbidden"


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,30}[a-z0-9])?", fullmatch=True)
PORTS = st.none() | st.integers(0, 65_535)
LOOPBACK = st.sampled_from(["127.0.0.1", "localhost", "127.9.9.9"])


def with_port(name: str, port: int | None) -> str:
    return name if port is None else f"{name}:{port}"


def names_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


@given(NAMES | st.builds("{}.{}".format, LOOPBACK, NAMES) | st.builds("{}.{}".format, NAMES, LOOPBACK), PORTS)
def test_without_a_key_exactly_the_names_of_loopback_are_served(name: str, port: int | None) -> None:
    visit = Visit("GET", "/api/skills", host=with_port(name, port))
    assert refusal(visit, keyed=False) == (None if names_loopback(name) else "forbidden")


@given(st.text(max_size=60), st.none() | st.text(max_size=60))
def test_any_text_as_host_and_origin_is_served_or_refused(host: str, origin: str | None) -> None:
    assert refusal(Visit("POST", "/api/skills/x", host=host, origin=origin), keyed=False) in {None, "forbidden"}


@given(LOOPBACK, PORTS, st.sampled_from(["http", "https"]), NAMES | LOOPBACK, PORTS)
def test_without_a_key_a_change_comes_from_a_page_of_the_same_host_and_port(
    name: str, port: int | None, scheme: str, other: str, other_port: int | None
) -> None:
    host, origin = with_port(name, port), with_port(other, other_port)
    visit = Visit("POST", "/api/skills/x", host=host, origin=f"{scheme}://{origin}")
    assert refusal(visit, keyed=False) == (None if origin == host else "forbidden")


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:8080.evil.example", "http://["]
)
def test_a_page_of_another_origin_changes_nothing(method: str, origin: str) -> None:
    visit = Visit(method, "/api/skills/x", host="127.0.0.1:8080", origin=origin)
    assert refusal(visit, keyed=False) == "forbidden"


def test_a_page_of_the_same_origin_may_change_things_and_others_may_ask_to_read() -> None:
    same = Visit("POST", "/api/tools/search", host="127.0.0.1:8080", origin="http://127.0.0.1:8080")
    reading = Visit("GET", "/api/skills", host="127.0.0.1:8080", origin="http://evil.example")
    assert refusal(same, keyed=False) is None
    assert refusal(reading, keyed=False) is None


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/docs", "/docs/assets/swagger-ui.css", "/openapi.json"])
def test_with_a_key_probes_and_documentation_are_open(path: str) -> None:
    assert refusal(Visit("GET", path, host="skills.example"), keyed=True) is None


@pytest.mark.parametrize(
    "authorization",
    [None, "", KEY, f"Basic {KEY}", "Bearer", "Bearer ", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", "Bearer \udcff"],
)
@pytest.mark.parametrize("path", ["/api/skills", "/metrics", "/docsx", "/readyz/"])
def test_with_a_key_everything_else_needs_it(path: str, authorization: str | None) -> None:
    visit = Visit("GET", path, host="127.0.0.1", authorization=authorization)
    assert refusal(visit, keyed=True) == "unauthorized"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_key_any_host_and_origin_is_served(scheme: str) -> None:
    visit = Visit("DELETE", "/api/skills/x", "skills.example", "http://other.example", f"{scheme} {KEY}")
    assert refusal(visit, keyed=True) is None


@pytest.mark.parametrize(
    "key", ["", "short", " " * 20, "with a space in it....", "schlüssel-schlüssel-", "tab\there-and-there-"]
)
def test_a_key_that_protects_nothing_or_cannot_be_sent_is_refused_without_being_named(key: str) -> None:
    with pytest.raises(OwnerKeyInvalidError) as refused:
        hash_owner_key(key)
    assert not key.strip() or key not in str(refused.value)


def test_white_space_around_the_key_of_a_file_is_not_part_of_it() -> None:
    assert hash_owner_key(f"{KEY}\n") == hash_owner_key(KEY)


@pytest.mark.parametrize("addresses", [["0.0.0.0"], ["::"], ["127.0.0.1", "10.0.0.1"], ["169.254.1.1"]])
def test_listening_for_others_needs_a_key_and_tls(addresses: list[str]) -> None:
    check_address("somewhere", addresses, has_key=True, has_tls=True)
    with pytest.raises(TlsRequiredError, match="SKILLBUS_GATEWAY_TLS_IN_FRONT"):
        check_address("somewhere", addresses, has_key=True)
    for without_key in (True, False):
        with pytest.raises(OwnerKeyRequiredError, match="SKILLBUS_GATEWAY_OWNER_KEY"):
            check_address("somewhere", addresses, has_key=False, without_key=without_key, has_tls=True)


@pytest.mark.parametrize("addresses", [[], ()])
def test_a_host_without_an_address_is_not_this_machine(addresses: Sequence[str]) -> None:
    with pytest.raises(OwnerKeyRequiredError):
        check_address("somewhere", addresses, has_key=False, without_key=True)
    with pytest.raises(TlsRequiredError):
        check_address("somewhere", addresses, has_key=True)


@pytest.mark.parametrize("host", ["nobody.invalid", "", "a..b"])
@pytest.mark.parametrize("keyed", [True, False])
async def test_a_host_whose_lookup_fails_stops_the_start_in_one_line_that_names_it(host: str, keyed: bool) -> None:
    settings = GatewaySettings(host=host, port=0, no_key=not keyed, owner_key=SecretStr(KEY) if keyed else None)
    with pytest.raises(StartError) as refused:
        await check_start(settings)
    assert repr(host) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", ["http_beyond_loopback"]), ("127.0.0.1", [])])
async def test_http_beyond_loopback_is_served_with_a_warning(host: str, warned: list[str]) -> None:
    settings = GatewaySettings(host=host, port=0, owner_key=SecretStr(KEY), tls_in_front=True)
    with capture_logs() as logs:
        await check_start(settings)
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == warned
    assert KEY not in str(logs)


def test_loopback_is_served_without_a_key_only_if_someone_says_so() -> None:
    check_address("localhost", ["127.0.0.1", "::1"], has_key=False, without_key=True)
    check_address("localhost", ["127.0.0.1", "::1"], has_key=True)
    with pytest.raises(OwnerKeyRequiredError, match="SKILLBUS_GATEWAY_NO_KEY"):
        check_address("localhost", ["127.0.0.1", "::1"], has_key=False)


async def test_a_refusal_for_want_of_the_key_says_how_to_send_it_as_a_problem_document() -> None:
    async with World(key=KEY).client() as client:
        refused = await client.get("/api/limits", headers={"Authorization": "Bearer wrong"})
        let_in = await client.get("/metrics")

    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert let_in.status_code == 200


async def test_a_foreign_host_is_refused_by_the_application_too() -> None:
    async with World().client() as client:
        refused = await client.get("/healthz", headers={"Host": "evil.example"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://evil.example:8080", "Host": "evil.example:8080"},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
async def test_no_page_of_another_origin_registers_a_command_that_is_started(
    headers: dict[str, str], kind: str
) -> None:
    world = World()
    body = b'{"name": "owned", "command": "/bin/sh"}'
    async with world.client() as client:
        refused = await client.post("/api/mcp-servers", content=body, headers={"Content-Type": kind, **headers})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert not world.caller.asked


async def test_a_key_that_is_revoked_expired_unknown_or_of_another_secret_is_refused_with_its_reason() -> None:
    world = World(key=KEY)
    past, future = datetime.now(UTC) - timedelta(seconds=1), datetime.now(UTC) + timedelta(hours=1)
    good = world.add_key(Role.READER, "default", expires_at=future)
    keys = {
        "revoked": world.add_key(Role.ADMIN, "*", revoked_at=past),
        "expired": world.add_key(Role.ADMIN, "*", expires_at=past),
        "not a key of this server": f"{good[:-1]}{'A' if good[-1] != 'A' else 'B'}",
        "another server": make_key().reveal(),
        "Bearer": "",
    }
    for reason, key in keys.items():
        async with world.client() as client:
            answer = await client.get("/api/limits", headers={"Authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert reason in answer.text
        assert key[-43:] not in answer.text or not key
    assert world.used_keys == []
    async with world.client(good) as client:
        assert (await client.get("/metrics")).status_code == 200
    assert world.used_keys == [good.split("_")[1]]


async def test_before_the_keys_are_read_the_owner_is_served_and_others_are_told_to_come_back() -> None:
    world = World(key=KEY)
    world.key_ring.is_loaded = False
    async with world.client() as client:
        owner = await client.get("/metrics")
        early = await client.get("/metrics", headers={"Authorization": f"Bearer {make_key().reveal()}"})
    assert (owner.status_code, early.status_code, early.json()["code"]) == (200, 503, "unavailable")
    assert early.headers["Retry-After"]


async def test_a_key_never_gives_more_than_its_maker_has() -> None:
    world = World(key=KEY)
    body = {"label": "x", "projects": ["mine"]}
    statuses = {}
    for role in Role:
        async with world.client(world.add_key(role, "mine")) as client:
            answers = [await client.post("/api/keys", json={**body, "role": wanted}) for wanted in Role]
        statuses[role] = [answer.status_code for answer in answers]
    assert statuses == {
        Role.READER: [403] * 4,
        Role.RUNNER: [403] * 4,
        Role.EDITOR: [403] * 4,
        Role.ADMIN: [201] * 4,
    }


async def test_a_key_ends_with_the_key_that_made_it_at_the_latest() -> None:
    world = World(key=KEY)
    end = datetime.now(UTC) + timedelta(hours=1)
    body = {"label": "x", "role": "admin", "projects": ["mine"]}

    async def make(maker: str | None, **more: float) -> dict[str, str]:
        async with world.client(maker) as client:
            made: dict[str, str] = (await client.post("/api/keys", json={**body, **more})).json()
        return made

    maker = world.add_key(Role.ADMIN, "mine", expires_at=end)
    endless, longer, shorter = (
        await make(maker),
        await make(maker, expires_in_s=7_200),
        await make(maker, expires_in_s=60),
    )
    of_one_made = await make(endless["key"])
    ends = [datetime.fromisoformat(it["expires_at"]) for it in (endless, longer, of_one_made, shorter)]
    assert ends[:3] == [end] * 3
    assert ends[3] < end
    assert (await make(world.add_key(Role.ADMIN, "mine")))["expires_at"] is None
    assert (await make(None))["expires_at"] is None


async def test_a_key_stops_with_the_key_that_made_it_and_so_do_those_that_it_made() -> None:
    world = World(key=KEY)
    body = {"label": "x", "role": "admin", "projects": ["mine"]}

    async def make(maker: str | None) -> dict[str, str]:
        async with world.client(maker) as client:
            made: dict[str, str] = (await client.post("/api/keys", json=body)).json()
        return made

    top, beside = await make(None), await make(None)
    middle = await make(top["key"])
    last = await make(middle["key"])

    async def knock() -> dict[str, tuple[int, str]]:
        answers = {}
        for made in (top, middle, last, beside):
            async with world.client(made["key"]) as client:
                answer = await client.get("/metrics")
            answers[made["id"]] = (answer.status_code, answer.text)
        return answers

    assert {status for status, _ in (await knock()).values()} == {200}
    async with world.client() as owner:
        revoked = (await owner.delete(f"/api/keys/{middle['id']}")).json()
        answers = await knock()
        listed = {key["id"]: key["revoked_at"] for key in (await owner.get("/api/keys")).json()["keys"]}
    assert revoked["made_keys"] == [last["id"]]
    assert {key_id: status for key_id, (status, _) in answers.items()} == {
        top["id"]: 200,
        middle["id"]: 401,
        last["id"]: 401,
        beside["id"]: 200,
    }
    assert "ended with the key that made it" in answers[last["id"]][1]
    assert listed[last["id"]] == listed[middle["id"]] == revoked["revoked_at"]
    assert listed[top["id"]] is None


def add_made_key(world: World, created_by: str) -> str:
    """Store a key as if another one had made it, and return its text."""
    text = world.add_key(Role.READER, "mine")
    key_id = text.split("_")[1]
    record = world.key_store.records[key_id].model_copy(update={"created_by": created_by})
    world.key_store.records[key_id] = record
    world.key_ring.drop_record(key_id)
    world.key_ring.put_record(record)
    return text


async def test_a_key_whose_maker_has_expired_is_unknown_or_is_itself_is_refused() -> None:
    world = World(key=KEY)
    expired = world.add_key(Role.ADMIN, "*", expires_at=datetime.now(UTC) - timedelta(seconds=1)).split("_")[1]
    for maker in (expired, "0" * 10):
        text = add_made_key(world, maker)
        async with world.client(text) as client:
            assert (await client.get("/metrics")).status_code == 401
    loop = add_made_key(world, "1" * 10)
    key_id = loop.split("_")[1]
    world.key_ring.put_record(world.key_store.records[key_id].model_copy(update={"created_by": key_id}))
    async with world.client(loop) as client:
        assert (await client.get("/metrics")).status_code == 401


async def test_a_websocket_is_closed_before_anything_hears_of_it() -> None:
    sent = list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope: Scope = {"type": "websocket", "path": "/api/tools", "headers": [], "query_string": b""}
    await World(key=KEY).app()(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_the_text_of_a_key_is_in_one_reply_and_in_no_log() -> None:
    world = World(key=KEY)
    with capture_logs() as logs:
        async with world.client() as client:
            made = await client.post("/api/keys", json={"label": "x", "projects": ["*"], "role": "admin"})
            text = made.json()["key"]
            listed = await client.get("/api/keys", headers={"Authorization": f"Bearer {text}"})
            revoked = await client.delete(f"/api/keys/{made.json()['id']}")
    secret = text[-43:]
    (record,) = world.key_store.records.values()
    for shown in (listed.text, revoked.text, str(logs), repr(record), repr(world.key_ring), repr(made.request.url)):
        assert secret not in shown
    assert record.secret_sha256 not in listed.text + revoked.text + repr(record) + str(logs)
    assert secret not in repr(ApiKeyCreated.model_validate_json(made.text))


async def test_every_reply_tells_browsers_neither_to_guess_nor_to_frame_it() -> None:
    async with World(key=KEY).client() as client:
        for path in ("/healthz", "/docs", "/api/limits", "/nothing"):
            headers = (await client.get(path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
            assert headers["Referrer-Policy"] == "no-referrer"


async def test_an_unexpected_error_is_logged_without_the_key_of_its_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World(key=KEY)
    world.caller.on(GET_LIMITS, lambda _: RuntimeError("unexpected"))
    key = world.add_key(Role.READER, "default")
    async with world.client(key) as client:
        failed = await client.get("/api/limits")
    logged = re.sub(r"[\s│]", "", capsys.readouterr().out)
    assert (failed.status_code, failed.json()["code"]) == (500, "internal")
    assert "RuntimeError:unexpected" in logged
    assert "bearer" not in logged.lower()
    assert key[-20:] not in logged


async def test_checking_a_key_takes_less_than_a_fifth_of_a_millisecond_of_cpu() -> None:
    world = World(key=KEY)
    keys = [world.add_key(Role.READER, "default") for _ in range(1_000)]
    authenticator = Authenticator(hash_owner_key(KEY), world.key_ring)
    visits = [Visit("GET", "/api/skills", authorization=f"Bearer {key}") for key in keys]
    start = time.process_time()
    for visit in visits:
        assert authenticator.authenticate(visit) is not None
    assert (time.process_time() - start) / len(visits) < 0.000_2
