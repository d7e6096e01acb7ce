"""The registry's copy, its changes, and who is told of them; on a store in memory."""

import asyncio

import pytest

from skillbus.contracts.embedder.chat_models import CHAT_MODELS_MAX
from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    ModelKind,
    ModelRecord,
    ModelsListed,
    ProviderKind,
    TestProvider,
    UpdateModel,
    UpdateProvider,
)
from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.domain.errors import ModelMisbehavedError, ModelUnavailableError, ModelUnknownError
from skillbus.embedder.domain.registry.errors import (
    ChangeNotToldError,
    ChatModelMissingError,
    RegistryConflictError,
    RegistryFullError,
    RegistryUnavailableError,
    WrongModelKindError,
)
from skillbus.embedder.domain.registry.probe import measure_dimensions, probe_provider
from skillbus.embedder.domain.registry.registry import EXPIRES_AFTER_S

from .registry_fakes import MemoryStore, Replica, replica

DOWN = RegistryUnavailableError("the database is away")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def one(store: MemoryStore) -> Replica:
    """A replica with the local default and a provider over HTTP."""
    one = replica(store)
    await one.registry.ensure_default()
    await one.registry.create_provider(CreateProvider(name="openai", kind=ProviderKind.OPENAI))
    one.changes.told.clear()
    one.changes.facts.clear()
    return one


def remote(name: str = "text-embedding-3-small", **more: object) -> CreateModel:
    return CreateModel.model_validate({"provider": "openai", "name": name, **more})


async def test_the_second_snapshot_asks_nobody(store: MemoryStore, one: Replica) -> None:
    """skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）"""
    first = await one.registry.load_snapshot()
    loads = store.loads
    assert await one.registry.load_snapshot() is first
    assert (await one.registry.get_model("use-multilingual-v3")).is_default
    assert store.loads == loads


@pytest.mark.spec("skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）")
async def test_a_copy_expires_after_five_minutes(store: MemoryStore, one: Replica) -> None:
    """skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）"""
    await one.registry.load_snapshot()
    loads = store.loads
    one.clock.now_s = EXPIRES_AFTER_S - 0.001
    await one.registry.load_snapshot()
    assert store.loads == loads
    one.clock.now_s = EXPIRES_AFTER_S
    await one.registry.load_snapshot()
    assert (store.loads, EXPIRES_AFTER_S) == (loads + 1, 300)


async def test_callers_who_miss_at_the_same_time_read_once(store: MemoryStore, one: Replica) -> None:
    one.registry.invalidate()
    loads = store.loads
    got = await asyncio.gather(*(one.registry.load_snapshot() for _ in range(20)))
    assert store.loads == loads + 1
    assert all(snapshot is got[0] for snapshot in got)


async def test_what_was_read_before_a_change_was_heard_of_is_not_kept(store: MemoryStore, one: Replica) -> None:
    for heard in (one.registry.invalidate, lambda: setattr(one.feed, "heard", one.feed.heard + 1)):
        one.registry.invalidate()
        store.held = asyncio.Event()
        reading = asyncio.create_task(one.registry.load_snapshot())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        heard()
        store.held.set()
        await reading
        loads = store.loads
        await one.registry.load_snapshot()
        assert store.loads == loads + 1


async def test_a_change_of_another_replica_counts_from_the_next_call(store: MemoryStore, one: Replica) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    other = replica(store)
    await other.registry.load_snapshot()
    await one.registry.create_model(remote(dimensions=8, is_default=True))
    other.feed.heard += 1
    default = (await other.registry.load_snapshot()).default
    assert default is not None
    assert default.model.name == "text-embedding-3-small"


async def test_an_expired_copy_is_used_on_while_the_database_is_away(store: MemoryStore, one: Replica) -> None:
    before = await one.registry.load_snapshot()
    one.clock.now_s = EXPIRES_AFTER_S
    store.error = DOWN
    assert await one.registry.load_snapshot() is before
    loads = store.loads
    assert await one.registry.load_snapshot() is before
    assert store.loads == loads, "it is not asked again at once"
    store.error = None
    one.clock.now_s += 5
    assert await one.registry.load_snapshot() is not before


async def test_a_copy_that_is_known_to_be_old_is_not_used_on(store: MemoryStore, one: Replica) -> None:
    await one.registry.load_snapshot()
    store.error = DOWN
    one.feed.heard += 1
    with pytest.raises(RegistryUnavailableError):
        await one.registry.load_snapshot()
    one.registry.invalidate()
    with pytest.raises(RegistryUnavailableError):
        await one.registry.load_snapshot()


async def test_a_caller_who_gives_up_does_not_keep_others_from_reading(store: MemoryStore, one: Replica) -> None:
    one.registry.invalidate()
    store.held = asyncio.Event()
    first, second = (asyncio.create_task(one.registry.load_snapshot()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    store.held.set()
    async with asyncio.timeout(5):
        assert (await second).default is not None


async def test_a_change_is_told_first_to_replicas_then_to_whom_a_new_default_concerns(one: Replica) -> None:
    model = await one.registry.create_model(remote(dimensions=8, is_default=True))
    assert one.changes.told == ["changed", "default_changed"]
    (fact,) = one.changes.facts
    assert (fact.id, fact.provider, fact.name, fact.dimensions) == (model.id, "openai", model.name, 8)
    assert fact.fingerprint == model.fingerprint


async def test_only_a_default_of_other_vectors_is_a_fact(one: Replica) -> None:
    await one.registry.create_model(remote(dimensions=8))
    await one.registry.update_model(UpdateModel(id="use-multilingual-v3", priority=3))
    assert one.changes.told == ["changed", "changed"]
    await one.registry.update_model(UpdateModel(id="use-multilingual-v3", query_prefix="query: "))
    assert one.changes.told == ["changed", "changed", "changed", "default_changed"]


async def test_a_change_to_what_is_so_already_is_told_to_nobody(store: MemoryStore, one: Replica) -> None:
    revision = store.records.revision
    model = await one.registry.update_model(UpdateModel(id="use-multilingual-v3", enabled=True))
    assert (model.version, store.records.revision, one.changes.told) == (1, revision, [])


async def test_a_change_that_cannot_be_told_is_kept_all_the_same(one: Replica) -> None:
    one.changes.error = ChangeNotToldError("the stream is away")
    await one.registry.create_model(remote(dimensions=8, is_default=True))
    assert (await one.registry.ensure_default()).name == "text-embedding-3-small"


async def test_nobody_waits_for_ever_until_a_change_is_told(store: MemoryStore) -> None:
    one = replica(store, announce_timeout_s=0.05)
    one.changes.held = asyncio.Event()
    async with asyncio.timeout(5):
        await one.registry.ensure_default()
    assert one.changes.told == []


async def test_a_change_that_came_second_is_made_on_what_the_first_left(store: MemoryStore, one: Replica) -> None:
    store.steals = 3
    await one.registry.create_model(remote(dimensions=8))
    store.steals = 100
    with pytest.raises(RegistryConflictError):
        await one.registry.create_model(remote("another", dimensions=8))


async def test_two_replicas_make_one_default(store: MemoryStore) -> None:
    replicas = [replica(store) for _ in range(5)]
    made = await asyncio.gather(*(one.registry.ensure_default() for one in replicas))
    assert len({one.id for one in made}) == 1
    assert len(store.records.models) == 1
    assert sum(len(one.changes.facts) for one in replicas) == 1


async def test_making_sure_of_the_default_again_costs_nothing(store: MemoryStore, one: Replica) -> None:
    await one.registry.load_snapshot()
    loads = store.loads
    assert (await one.registry.ensure_default()).fingerprint is not None
    assert (store.loads, one.changes.told) == (loads, [])


async def test_dimensions_that_nobody_knows_are_found_by_asking(store: MemoryStore, one: Replica) -> None:
    one.factory.width = 1024
    model = await one.registry.create_model(remote())
    assert one.factory.asked == [("text-embedding-3-small", "skillbus")]
    assert (model.dimensions, model.version, one.factory.open) == (1024, 1, 0)
    assert model.fingerprint is not None
    assert [kept.dimensions for kept in store.records.models if kept.id == model.id] == [1024]


async def test_dimensions_that_are_known_are_not_asked_for(one: Replica) -> None:
    given = await one.registry.create_model(remote(dimensions=256, is_default=True))
    local = await one.registry.create_model(CreateModel(provider="local", name="all-MiniLM-L6-v2"))
    assert (given.dimensions, local.dimensions, one.factory.asked) == (256, 384, [])


async def test_a_disabled_model_is_asked_when_it_is_enabled_or_made_the_default(one: Replica) -> None:
    model = await one.registry.create_model(remote(enabled=False))
    await one.registry.update_model(UpdateModel(id=model.id, priority=1))
    assert (model.dimensions, model.fingerprint, one.factory.asked) == (None, None, [])
    enabled = await one.registry.update_model(UpdateModel(id=model.id, enabled=True, is_default=True))
    assert (enabled.dimensions, enabled.is_default, enabled.version) == (8, True, 3)
    assert one.changes.facts[-1].fingerprint == enabled.fingerprint


@pytest.mark.parametrize(
    "error", [ModelUnavailableError("no answer"), ModelMisbehavedError("zeros"), TimeoutError("too slow")]
)
async def test_a_model_that_cannot_tell_its_dimensions_is_not_registered(one: Replica, error: Exception) -> None:
    one.factory.error = error
    with pytest.raises(ModelUnavailableError, match="dimensions"):
        await one.registry.create_model(remote(is_default=True))
    assert [model.name for model in await one.registry.list_models()] == ["use-multilingual-v3"]
    assert (one.factory.open, one.changes.told) == (0, [])


async def test_a_model_that_never_answers_is_waited_for_only_so_long(one: Replica) -> None:
    one.factory.held = asyncio.Event()
    model = await one.registry.create_model(remote(enabled=False))
    async with asyncio.timeout(5):
        with pytest.raises(ModelUnavailableError):
            await measure_dimensions(one.factory, await one.registry.get_provider("openai"), model, within_s=0.05)
    assert one.factory.open == 0


async def test_other_changes_go_on_while_a_model_is_asked(one: Replica) -> None:
    one.factory.held = asyncio.Event()
    asking = asyncio.create_task(one.registry.create_model(remote()))
    async with asyncio.timeout(5):
        await one.registry.create_model(remote("another", dimensions=8))
        one.factory.held.set()
        assert (await asking).dimensions == 8


async def test_dimensions_found_at_a_provider_that_was_changed_meanwhile_are_not_kept(one: Replica) -> None:
    one.factory.held = asyncio.Event()
    asking = asyncio.create_task(one.registry.create_model(remote()))
    async with asyncio.timeout(5):
        await one.factory.entered.wait()
        await one.registry.update_provider(UpdateProvider(name="openai", base_url="https://other.example/v1"))
        one.factory.held.set()
        with pytest.raises(RegistryConflictError):
            await asking


async def test_a_default_that_can_never_be_had_is_refused(one: Replica) -> None:
    one.factory.never.add("broken")
    with pytest.raises(ModelUnavailableError):
        await one.registry.create_model(remote("broken", dimensions=8, is_default=True))
    listed = await one.registry.create_model(remote("broken", dimensions=8))
    assert (listed.fingerprint, listed.dimensions) == (None, 8)


async def test_a_model_that_can_no_longer_be_had_stays_listed_without_fingerprint(one: Replica) -> None:
    one.factory.never.add("use-multilingual-v3")
    one.registry.invalidate()
    snapshot = await one.registry.load_snapshot()
    assert snapshot.default is not None
    assert (snapshot.default.model.fingerprint, snapshot.default.spec) == (None, None)
    assert snapshot.default.problem is not None


async def test_no_more_is_registered_than_one_message_can_list(one: Replica) -> None:
    long = {"dimensions": 8, "query_prefix": "名" * 2_000, "document_prefix": "名" * 2_000}
    made = [one.registry.create_model(remote(f"m{number}", **long)) for number in range(100)]
    refused = [got for got in await asyncio.gather(*made, return_exceptions=True) if not isinstance(got, ModelRecord)]
    assert {type(got) for got in refused} == {RegistryFullError}
    assert len(ModelsListed(models=await one.registry.list_models()).model_dump_json().encode()) < 1024 * 1024
    shorter = await one.registry.update_model(UpdateModel(id="m1", is_default=True, query_prefix=""))
    assert (await one.registry.ensure_default()).id == shorter.id
    await one.registry.delete_model("m2")
    await one.registry.create_model(remote("again", **long))


async def test_models_are_listed_in_the_order_in_which_they_are_tried(one: Replica) -> None:
    await one.registry.create_model(remote("late", dimensions=8, priority=200))
    await one.registry.create_model(remote("b", dimensions=8))
    await one.registry.create_model(remote("a", dimensions=8))
    await one.registry.create_model(remote("first", dimensions=8, priority=1))
    await one.registry.create_model(remote("off", dimensions=8, priority=0, enabled=False))
    listed = [model.name for model in await one.registry.list_models()]
    assert [name for name in listed if name != "off"] == ["use-multilingual-v3", "first", "a", "b", "late"]
    chain = [model.model.name for model in (await one.registry.load_snapshot()).chain]
    assert chain == ["use-multilingual-v3", "first", "a", "b", "late"]


async def test_a_model_is_found_by_fingerprint_name_and_provider(one: Replica) -> None:
    model = await one.registry.create_model(remote("BAAI/bge-m3", dimensions=8))
    snapshot = await one.registry.load_snapshot()
    assert model.fingerprint is not None
    for reference in (model.fingerprint, model.id, "BAAI/bge-m3", "openai/BAAI/bge-m3"):
        found = snapshot.find_enabled(reference)
        assert found is not None
        assert found.model.id == model.id
    await one.registry.update_model(UpdateModel(id=model.id, enabled=False))
    assert (await one.registry.load_snapshot()).find_enabled(model.fingerprint) is None
    assert (await one.registry.get_model("openai/BAAI/bge-m3")).id == model.id


def chat(name: str, **more: object) -> CreateModel:
    return remote(name, kind=ModelKind.CHAT, **more)


async def find_chats(one: Replica, reference: str | None = None) -> list[str]:
    return [found.model.name for found in await one.registry.find_chat_models(reference)]


async def test_a_chat_model_is_never_asked_for_a_vector_and_never_a_new_default_of_the_indexes(one: Replica) -> None:
    model = await one.registry.create_model(chat("gpt", is_default=True))
    await one.registry.update_model(UpdateModel(id="gpt", priority=3, is_default=True))
    assert (model.is_default, model.dimensions, model.fingerprint, one.factory.asked) == (True, None, None, [])
    assert (one.changes.told, one.changes.facts) == (["changed", "changed"], [])
    snapshot = await one.registry.load_snapshot()
    assert [found.model.name for found in snapshot.chain] == ["use-multilingual-v3"]
    assert (await one.registry.ensure_default()).name == "use-multilingual-v3"
    with pytest.raises(WrongModelKindError) as refused:
        snapshot.find_enabled("openai/gpt")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


async def test_chat_models_are_the_default_and_its_fallbacks_or_the_named_one(one: Replica) -> None:
    wanted = {"late": {"priority": 200}, "off": {"enabled": False}, "b": {}, "first": {"priority": 1}}
    for name, more in wanted.items():
        await one.registry.create_model(chat(name, **more))
    await one.registry.create_model(remote(dimensions=8))
    assert await find_chats(one) == ["late", "first", "b"]
    listed = [model.name for model in await one.registry.list_models()]
    assert listed == ["use-multilingual-v3", "text-embedding-3-small", "late", "first", "b", "off"]
    await one.registry.update_model(UpdateModel(id="late", enabled=False))
    assert await find_chats(one) == ["first", "b"]
    for reference in ("b", "openai/b", (await one.registry.get_model("b")).id):
        assert await find_chats(one, reference) == ["b"]
    with pytest.raises(ModelUnknownError):
        await find_chats(one, "nothing")
    with pytest.raises(WrongModelKindError, match="embedding model"):
        await find_chats(one, "text-embedding-3-small")
    with pytest.raises(ChatModelMissingError, match="models update openai/off --enable"):
        await find_chats(one, "off")


async def test_without_a_chat_model_the_error_says_how_to_add_or_enable_one(one: Replica) -> None:
    with pytest.raises(ChatModelMissingError, match="skillbus models add PROVIDER NAME --chat") as missing:
        await find_chats(one)
    assert (missing.value.code, missing.value.retryable) == (ErrorCode.MODEL_UNAVAILABLE, False)
    await one.registry.create_model(chat("gpt"))
    await one.registry.update_provider(UpdateProvider(name="openai", enabled=False))
    with pytest.raises(ChatModelMissingError, match="providers update openai --enable"):
        await find_chats(one)


async def test_a_fallback_chain_fits_into_a_message(one: Replica) -> None:
    for number in range(CHAT_MODELS_MAX + 1):
        await one.registry.create_model(chat(f"m{number:02}"))
    assert await find_chats(one) == [f"m{number:02}" for number in range(CHAT_MODELS_MAX)]


async def test_a_provider_is_not_tested_with_a_chat_model(one: Replica) -> None:
    await one.registry.create_model(chat("gpt"))
    snapshot = await one.registry.load_snapshot()
    unnamed = await probe_provider(snapshot, one.factory, TestProvider(name="openai"))
    named = await probe_provider(snapshot, one.factory, TestProvider(name="openai", model="gpt"))
    assert (unnamed.ok, unnamed.model, named.ok, named.model) == (False, None, False, "gpt")
    assert "chat model" in (named.error or "")
    assert one.factory.asked == []


async def test_a_provider_that_answers_is_well(one: Replica) -> None:
    await one.registry.create_model(remote("first", dimensions=8, priority=1))
    await one.registry.create_model(remote("second", dimensions=8))
    snapshot = await one.registry.load_snapshot()
    answer = await probe_provider(snapshot, one.factory, TestProvider(name="openai"))
    assert (answer.ok, answer.model, answer.dimensions, answer.error) == (True, "first", 8, None)
    named = await probe_provider(snapshot, one.factory, TestProvider(name="openai", model="never-registered"))
    assert (named.ok, named.model) == (True, "never-registered")
    assert [asked[0] for asked in one.factory.asked] == ["first", "never-registered"]


async def test_a_provider_that_fails_is_an_answer_and_no_error(one: Replica) -> None:
    await one.registry.create_model(remote("first", dimensions=8))
    one.factory.error = ModelUnavailableError("provider openai refuses the key of env:KEY")
    answer = await probe_provider(await one.registry.load_snapshot(), one.factory, TestProvider(name="openai"))
    assert (answer.ok, answer.model, answer.dimensions) == (False, "first", None)
    assert answer.error is not None
    assert "refuses the key" in answer.error


async def test_a_provider_without_models_can_be_tested_only_by_a_name(one: Replica) -> None:
    answer = await probe_provider(await one.registry.load_snapshot(), one.factory, TestProvider(name="openai"))
    assert (answer.ok, answer.model) == (False, None)
    assert answer.error is not None
