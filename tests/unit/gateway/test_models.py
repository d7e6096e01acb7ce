"""Providers, models and indexes over HTTP."""

from datetime import UTC, datetime

import pytest

from skillbus.contracts.agent.model_test import TEST_CHAT_MODEL, ChatModelTested, TestChatModel
from skillbus.contracts.embedder.registry import (
    CREATE_MODEL,
    CREATE_PROVIDER,
    DELETE_MODEL,
    DELETE_PROVIDER,
    GET_DEFAULT_MODEL,
    GET_MODEL,
    GET_PROVIDER,
    LIST_MODELS,
    LIST_PROVIDERS,
    TEST_PROVIDER,
    UPDATE_MODEL,
    UPDATE_PROVIDER,
    Calibration,
    CreateModel,
    ModelKind,
    ModelRecord,
    ModelSelector,
    ModelsListed,
    ProviderKind,
    ProviderRecord,
    ProviderSelector,
    ProvidersListed,
    ProviderTested,
    RegistryEntryDeleted,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.index_switch import (
    LIST_INDEXES,
    ROLL_BACK,
    START_SWITCH,
    IndexesListed,
    IndexModel,
    IndexSelector,
    IndexState,
)

from .fakes import KEY, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROVIDER = ProviderRecord(
    name="remote",
    kind=ProviderKind.OPENAI,
    base_url="https://models.example/v1",
    api_key="env:REMOTE_KEY",
    version=1,
    created_at=NOW,
    updated_at=NOW,
)
MODEL = ModelRecord(
    id="ab" * 16,
    provider="remote",
    name="BAAI/bge-m3",
    is_default=True,
    fingerprint="0123456789ab",
    dimensions=1024,
    version=3,
    created_at=NOW,
    updated_at=NOW,
)
STATE = IndexState(alias="tools", live=IndexModel(collection="c", fingerprint="f", name="m", dimensions=512))
SECRET = "sk-" + "a1b2c3d4" * 5


async def test_providers_are_listed_read_changed_tested_and_removed() -> None:
    world = World()
    world.caller.on(LIST_PROVIDERS, lambda _: ProvidersListed(providers=(PROVIDER,)))
    world.caller.on(GET_PROVIDER, lambda _: PROVIDER)
    world.caller.on(UPDATE_PROVIDER, lambda _: PROVIDER)
    tested = ProviderTested(ok=False, model="m", took_ms=3.5, error="401: set REMOTE_KEY")
    world.caller.on(TEST_PROVIDER, lambda _: tested)
    world.caller.on(DELETE_PROVIDER, lambda _: RegistryEntryDeleted(name="remote"))
    async with world.client() as client:
        listed = await client.get("/api/embedding/providers")
        got = await client.get("/api/embedding/providers/remote")
        changed = await client.patch("/api/embedding/providers/remote", json={"api_key": "", "timeout_s": 5})
        result = await client.post("/api/embedding/providers/remote/test")
        of_model = await client.post("/api/embedding/providers/remote/test", json={"model": "a/b"})
        gone = await client.delete("/api/embedding/providers/remote")
    assert listed.json() == {"providers": [PROVIDER.model_dump(mode="json")]}
    assert got.json() == changed.json() == PROVIDER.model_dump(mode="json")
    assert result.json() == of_model.json() == tested.model_dump(mode="json")
    assert (gone.status_code, gone.content) == (204, b"")
    assert [request for _, request in world.caller.asked[2:]] == [
        UpdateProvider(name="remote", api_key="", timeout_s=5),
        TestProvider(name="remote"),
        TestProvider(name="remote", model="a/b"),
        ProviderSelector(name="remote"),
    ]


async def test_a_model_is_tested_by_the_service_that_calls_it() -> None:
    world, chat = World(), MODEL.model_copy(update={"kind": ModelKind.CHAT, "id": "c" * 32, "name": "gpt"})
    world.caller.on(GET_MODEL, lambda request: chat if request.id == "remote/gpt" else MODEL)
    world.caller.on(TEST_PROVIDER, lambda _: ProviderTested(ok=True, model="m", dimensions=8, took_ms=3.5))
    failed = ChatModelTested(ok=False, provider="remote", model="gpt", took_ms=1, error="401: wrong key")
    world.caller.on(TEST_CHAT_MODEL, lambda _: failed)
    async with world.client() as client:
        vector = (await client.post("/api/embedding/models/BAAI/bge-m3/test")).json()
        answer = (await client.post("/api/embedding/models/remote/gpt/test")).json()
    assert (vector["ok"], vector["kind"], vector["model"], vector["dimensions"]) == (True, "embedding", MODEL.name, 8)
    assert (answer["ok"], answer["kind"], answer["model"], answer["error"]) == (False, "chat", "gpt", "401: wrong key")
    asked = [request for _, request in world.caller.asked]
    assert TestProvider(name="remote", model=MODEL.name) in asked
    assert TestChatModel(id="remote/gpt") in asked


async def test_a_new_provider_and_a_new_model_say_where_they_are() -> None:
    world = World()
    world.caller.on(CREATE_PROVIDER, lambda _: PROVIDER)
    world.caller.on(CREATE_MODEL, lambda _: MODEL)
    async with world.client() as client:
        body = {"name": "remote", "kind": "openai", "api_key": "env:REMOTE_KEY"}
        provider = await client.post("/api/embedding/providers", json=body)
        model = await client.post("/api/embedding/models", json={"provider": "remote", "name": "BAAI/bge-m3"})
    assert (provider.status_code, model.status_code) == (201, 201)
    assert provider.headers["Location"] == "/api/embedding/providers/remote"
    assert model.headers["Location"] == f"/api/embedding/models/{MODEL.id}"
    assert model.json() == MODEL.model_dump(mode="json")


async def test_a_chat_model_is_registered_by_its_kind() -> None:
    chat = MODEL.model_copy(update={"kind": ModelKind.CHAT, "fingerprint": None, "dimensions": None})
    world = World()
    world.caller.on(CREATE_MODEL, lambda _: chat)
    async with world.client() as client:
        body = {"provider": "remote", "name": "gpt", "kind": "chat"}
        created = await client.post("/api/embedding/models", json=body)
        unknown = await client.post("/api/embedding/models", json=body | {"kind": "telepathy"})
    assert (created.status_code, created.json()["kind"], unknown.status_code) == (201, "chat", 400)
    assert [request for _, request in world.caller.asked] == [
        CreateModel(provider="remote", name="gpt", kind=ModelKind.CHAT)
    ]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_key_in_place_of_a_reference_is_refused_and_said_nowhere(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    path = "/api/embedding/providers" + ("" if method == "POST" else "/remote")
    async with world.client() as client:
        answer = await client.request(method, path, json={"name": "remote", "kind": "openai", "api_key": SECRET})
    assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "api_key")
    assert "env:NAME" in answer.json()["detail"]
    assert SECRET not in answer.text
    assert SECRET not in "".join(capsys.readouterr())
    assert not world.caller.asked


@pytest.mark.parametrize("name", [MODEL.id, "bge-m3", "remote/BAAI/bge-m3", "remote%2FBAAI%2Fbge-m3", "a b?c#d"])
async def test_a_model_is_read_changed_and_removed_by_a_name_with_slashes(name: str) -> None:
    world = World()
    for endpoint in (GET_MODEL, UPDATE_MODEL):
        world.caller.on(endpoint, lambda _: MODEL)
    world.caller.on(DELETE_MODEL, lambda _: RegistryEntryDeleted(name="x"))
    path = f"/api/embedding/models/{name.replace('?', '%3F').replace('#', '%23')}"
    async with world.client() as client:
        got = await client.get(path)
        changed = await client.patch(
            path, json={"is_default": True, "calibration": {"slope": 2, "lexical": 0, "offset": 1}}
        )
        gone = await client.delete(path)
    plain = name.replace("%2F", "/")
    calibration = Calibration(slope=2, lexical=0, offset=1)
    assert [got.status_code, changed.status_code, gone.status_code] == [200, 200, 204]
    assert [request for _, request in world.caller.asked] == [
        ModelSelector(id=plain),
        UpdateModel(id=plain, is_default=True, calibration=calibration),
        ModelSelector(id=plain),
    ]


async def test_the_default_model_is_asked_for_by_that_word() -> None:
    world = World()
    world.caller.on(GET_DEFAULT_MODEL, lambda _: MODEL)
    world.caller.on(LIST_MODELS, lambda _: ModelsListed(models=(MODEL,)))
    async with world.client() as client:
        default = await client.get("/api/embedding/models/default")
        listed = await client.get("/api/embedding/models")
    assert default.json() == listed.json()["models"][0] == MODEL.model_dump(mode="json")


async def test_indexes_are_listed_switched_and_rolled_back() -> None:
    world = World()
    world.caller.on(LIST_INDEXES, lambda _: IndexesListed(indexes=(STATE,)))
    world.caller.on(START_SWITCH, lambda _: STATE)
    world.caller.on(ROLL_BACK, lambda _: RequestError(ErrorCode.CONFLICT, "There is nothing to go back to."))
    async with world.client() as client:
        listed = await client.get("/api/indexes")
        switched = await client.post("/api/indexes/tools/switch")
        back = await client.post("/api/indexes/tools/rollback")
    assert listed.json() == {"indexes": [STATE.model_dump(mode="json")]}
    assert (switched.status_code, switched.json()) == (202, STATE.model_dump(mode="json"))
    assert (back.status_code, back.json()["code"]) == (409, "conflict")
    assert world.caller.asked[1:] == [("start_switch", IndexSelector()), ("roll_back", IndexSelector())]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/embedding/providers/UPPER", None),
        ("PATCH", "/api/embedding/providers/remote", {"base_url": "https://user:pw@models.example"}),
        ("POST", "/api/embedding/providers", {"name": "remote", "kind": "telepathy"}),
        ("POST", "/api/embedding/models", {"provider": "remote", "name": "a b"}),
        ("POST", "/api/embedding/models", {"provider": "remote", "name": "a\0b"}),
        ("GET", "/api/embedding/models/a%00b", None),
        ("GET", "/api/embedding/models/", None),
        ("PATCH", "/api/embedding/models/m", {"priority": -1}),
        ("PATCH", "/api/embedding/models/m", b'{"query_prefix": "\\ud800"}'),
        ("POST", "/api/indexes/a.b/switch", None),
        ("POST", "/api/indexes/%3E/rollback", None),
    ],
)
async def test_what_cannot_be_is_refused_before_anyone_is_asked(
    method: str, path: str, body: dict[str, object] | bytes | None
) -> None:
    world = World()
    async with world.client() as client:
        if isinstance(body, bytes):
            answer = await client.request(method, path, content=body, headers={"Content-Type": "application/json"})
        else:
            answer = await client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert not world.caller.asked


@pytest.mark.parametrize(
    "path", ["/api/embedding/providers", "/api/embedding/models/m", "/api/indexes", "/v1/models", "/v1/models/m"]
)
async def test_models_need_the_owners_key_as_all_else_does(path: str) -> None:
    world = World(key=KEY)
    async with world.client() as client:
        answer = await client.get(path, headers={"Authorization": "Bearer another-key-0123456789"})
    assert answer.status_code == 401
    assert not world.caller.asked
