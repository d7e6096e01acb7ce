"""The registry's tables, on SQLite and on PostgreSQL: what is kept, and who may be first."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Engine, String, event, insert, text

from skillbus.contracts.embedder.registry import (
    Calibration,
    CreateModel,
    CreateProvider,
    LocalRuntime,
    ModelKind,
    ModelRecord,
    ProviderKind,
    ProviderRecord,
    UpdateModel,
)
from skillbus.embedder.adapters.sql.migrations.versions import v0001_providers_and_models
from skillbus.embedder.adapters.sql.registry_store import SqlRegistryStore, open_registry_store
from skillbus.embedder.adapters.sql.tables import METADATA, MODELS, PROVIDERS, SCHEMA
from skillbus.embedder.domain.registry.errors import RegistryUnavailableError, RegistryVersionError
from skillbus.embedder.domain.registry.ports import Records
from skillbus.sql.database import Database, connect_database, open_database
from skillbus.sql.errors import ConstraintError
from skillbus.sql.migration import run_migrations

from ...unit.embedder.registry_fakes import Replica, replica

MOMENT = datetime(2025, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
FULL_PROVIDER = ProviderRecord(
    name="dashscope",
    kind=ProviderKind.DASHSCOPE,
    base_url="https://dashscope.example/v1",
    api_key="env:DASHSCOPE_API_KEY",
    timeout_s=2.5,
    max_concurrency=8,
    max_batch_texts=10,
    enabled=False,
    version=7,
    created_at=MOMENT,
    updated_at=MOMENT,
)
FULL_MODEL = ModelRecord(
    id="f" * 32,
    provider="dashscope",
    name="BAAI/向量-v4",
    is_default=True,
    fingerprint=None,
    dimensions=1024,
    request_dimensions=True,
    priority=3,
    enabled=False,
    api_path="/embeddings",
    max_chars=8192,
    query_prefix="为这个句子生成表示：'\";--\n",
    document_prefix="passage: ",
    runtime=LocalRuntime.ONNX,
    path="zh/bge",
    calibration=Calibration(slope=1.5, lexical=0.25, offset=-0.125),
    version=9,
    created_at=MOMENT,
    updated_at=MOMENT,
)
SPARSE_PROVIDER = ProviderRecord(name="local", kind=ProviderKind.LOCAL, version=1, created_at=MOMENT, updated_at=MOMENT)
SPARSE_MODEL = ModelRecord(
    id="0" * 32,
    provider="local",
    name="x",
    is_default=False,
    fingerprint=None,
    version=1,
    created_at=MOMENT,
    updated_at=MOMENT,
)

DEFAULT_MODEL = SPARSE_MODEL.model_copy(update={"is_default": True})
CHAT_MODEL = SPARSE_MODEL.model_copy(
    update={"id": "c" * 32, "provider": "dashscope", "name": "qwen-plus", "kind": ModelKind.CHAT, "is_default": True}
)


@pytest.fixture
async def tables(database_url: str) -> AsyncGenerator[Database]:
    """Tables that were created at once. Those that migrations create are the same; two tests show it."""
    async with open_database(database_url, SCHEMA) as database:
        yield database


@pytest.fixture(params=["made at once", "migrated"])
async def made_either_way(database_url: str, request: pytest.FixtureRequest) -> None:
    """Tables that were created by migrations, before `tables` opens them."""
    if request.param == "made at once":
        return
    empty = connect_database(database_url)
    await empty.write(partial(run_migrations, scripts=SCHEMA.scripts, version_table=SCHEMA.version_table))
    await empty.close()


@pytest.fixture
def store(tables: Database) -> SqlRegistryStore:
    return SqlRegistryStore(tables)


def execute(connection: Connection, statement: str) -> None:
    connection.execute(text(statement))


@pytest.fixture
async def one(store: SqlRegistryStore) -> Replica:
    """A replica with the local default and a provider over HTTP."""
    one = replica(store)
    await one.registry.ensure_default()
    await one.registry.create_provider(CreateProvider(name="openai", kind=ProviderKind.OPENAI))
    return one


async def test_every_field_comes_back_as_it_was_kept(store: SqlRegistryStore) -> None:
    empty = await store.load()
    providers, models = (FULL_PROVIDER, SPARSE_PROVIDER), (SPARSE_MODEL, CHAT_MODEL, FULL_MODEL)
    assert (empty.providers, empty.models) == ((), ())
    assert await store.replace(empty, Records(empty.revision, providers, models))
    assert await store.load() == Records(empty.revision + 1, providers, models)


async def test_what_is_out_of_date_is_not_kept(store: SqlRegistryStore) -> None:
    empty = await store.load()
    first, second = Records(0, (SPARSE_PROVIDER,)), Records(0, (FULL_PROVIDER,))
    assert await store.replace(empty, first)
    assert not await store.replace(empty, second)
    assert (await store.load()).providers == (SPARSE_PROVIDER,)


async def test_of_several_who_change_at_once_one_is_first(store: SqlRegistryStore) -> None:
    empty = await store.load()
    kept = await asyncio.gather(*(store.replace(empty, Records(0, (SPARSE_PROVIDER,))) for _ in range(5)))
    assert sorted(kept) == [False] * 4 + [True]


async def test_changes_and_removals_are_kept_in_one_step(store: SqlRegistryStore) -> None:
    empty = await store.load()
    await store.replace(empty, Records(0, (FULL_PROVIDER, SPARSE_PROVIDER), (SPARSE_MODEL, FULL_MODEL)))
    seen = await store.load()
    default = SPARSE_MODEL.model_copy(update={"is_default": True, "calibration": None, "version": 2})
    assert await store.replace(seen, Records(0, (SPARSE_PROVIDER,), (default,)))
    after = await store.load()
    assert (after.providers, after.models) == ((SPARSE_PROVIDER,), (default,))


async def test_the_default_moves_although_there_is_never_more_than_one(store: SqlRegistryStore) -> None:
    """skill-vector-retrieval.md § 运行时切换Embedding模型"""
    empty = await store.load()
    await store.replace(empty, Records(0, (FULL_PROVIDER, SPARSE_PROVIDER), (SPARSE_MODEL, FULL_MODEL)))
    for name in ("x", FULL_MODEL.name, "x"):
        seen = await store.load()
        models = tuple(model.model_copy(update={"is_default": model.name == name}) for model in seen.models)
        assert await store.replace(seen, Records(0, seen.providers, models))
    assert [model.is_default for model in (await store.load()).models] == [True, False]


@pytest.mark.usefixtures("made_either_way")
async def test_the_database_itself_refuses_two_defaults_and_models_of_nobody(
    tables: Database, store: SqlRegistryStore
) -> None:
    empty = await store.load()
    models = (SPARSE_MODEL, FULL_MODEL, CHAT_MODEL)
    await store.replace(empty, Records(0, (FULL_PROVIDER, SPARSE_PROVIDER), models))
    for statement in (
        "UPDATE embedding_models SET is_default = true",
        "UPDATE embedding_models SET kind = 'embedding' WHERE kind = 'chat'",
        "DELETE FROM embedding_providers",
        "UPDATE embedding_models SET provider = 'dashscope', name = 'same'",
        "INSERT INTO embedding_registry (id, revision) VALUES (2, 0)",
    ):
        with pytest.raises(ConstraintError):
            await tables.write(partial(execute, statement=statement))


async def test_models_from_before_there_were_chat_models_make_embeddings(database_url: str) -> None:
    def create_first_tables(connection: Connection) -> None:
        operations = Operations(MigrationContext.configure(connection))
        v0001_providers_and_models.upgrade(operations)
        version = operations.create_table(SCHEMA.version_table, Column("version_num", String(32), primary_key=True))
        operations.bulk_insert(version, [{"version_num": "0001"}])
        connection.execute(insert(PROVIDERS).values({**SPARSE_PROVIDER.model_dump(), "max_concurrency": 4}))
        connection.execute(insert(MODELS).values(DEFAULT_MODEL.model_dump(exclude={"fingerprint", "kind"})))

    before = connect_database(database_url)
    await before.write(create_first_tables)
    await before.close()
    async with open_registry_store(database_url) as store:
        assert (await store.load()).models == (DEFAULT_MODEL,)
        registry = replica(store).registry
        await registry.create_provider(CreateProvider(name="ollama", kind=ProviderKind.OLLAMA))
        chat = await registry.create_model(CreateModel(provider="ollama", name="qwen3", kind=ModelKind.CHAT))
        assert (chat.is_default, (await registry.ensure_default()).id) == (True, DEFAULT_MODEL.id)


@pytest.mark.usefixtures("made_either_way")
async def test_the_tables_are_those_that_the_migrations_make(tables: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        options = {"include_name": lambda name, kind, _: kind != "table" or name in METADATA.tables}
        context = MigrationContext.configure(connection, opts=options)
        found: list[object] = compare_metadata(context, METADATA)
        return found

    assert await tables.read(differences) == []


def test_tables_that_are_made_at_once_are_those_of_the_last_migration() -> None:
    assert ScriptDirectory(str(SCHEMA.scripts)).get_current_head() == SCHEMA.newest


async def test_a_start_that_finds_its_tables_does_not_load_alembic(database_url: str) -> None:
    async with open_registry_store(database_url):
        pass
    program = (
        "import asyncio, sys\n"
        "from skillbus.embedder.adapters.sql.registry_store import open_registry_store\n"
        "async def main():\n"
        f"    async with open_registry_store({database_url!r}) as store:\n"
        "        assert (await store.load()).revision == 0\n"
        "asyncio.run(main())\n"
        "sys.exit('alembic' in sys.modules)\n"
    )
    ran = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    assert await ran.wait() == 0


def test_a_column_is_a_field_of_the_contract() -> None:
    assert set(PROVIDERS.columns.keys()) == set(ProviderRecord.model_fields)
    assert set(MODELS.columns.keys()) == set(ModelRecord.model_fields) - {"fingerprint"}


@pytest.mark.spec("skill-vector-retrieval.md § 读取本地Embedding模型配置")
async def test_what_is_kept_is_there_when_the_database_is_opened_again(database_url: str) -> None:
    """skill-vector-retrieval.md § 读取本地Embedding模型配置, § 读取外部API Embedding配置"""
    async with open_registry_store(database_url) as store:
        before = replica(store).registry
        await before.create_provider(
            CreateProvider(name="openai", kind=ProviderKind.OPENAI, base_url="https://one.example/v1", timeout_s=10)
        )
        external = await before.create_model(
            CreateModel(provider="openai", name="text-embedding-3-small", api_path="/embeddings", dimensions=512)
        )
        await before.create_provider(CreateProvider(name="local", kind=ProviderKind.LOCAL))
        local = await before.create_model(
            CreateModel(provider="local", name="all-MiniLM-L6-v2", path="embedding/all-MiniLM-L6-v2", is_default=True)
        )
    async with open_registry_store(database_url) as store:
        after = replica(store).registry
        assert await after.ensure_default() == local
        assert await after.list_models() == (local, external)
        assert (local.dimensions, external.dimensions) == (384, 512)


@pytest.mark.spec("skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）")
async def test_the_second_snapshot_costs_no_sql(one: Replica) -> None:
    """skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）"""
    statements: list[str] = []

    def listener(*call: str) -> None:
        statements.append(call[2])

    event.listen(Engine, "before_cursor_execute", listener)
    try:
        await one.registry.load_snapshot()
        assert statements
        statements.clear()
        for _ in range(1000):
            await one.registry.load_snapshot()
        await one.registry.ensure_default()
        await one.registry.list_models()
        assert statements == []
        await one.registry.update_model(UpdateModel(id="use-multilingual-v3", priority=1))
        assert (await one.registry.ensure_default()).priority == 1
        assert statements
    finally:
        event.remove(Engine, "before_cursor_execute", listener)


@pytest.mark.spec("skill-vector-retrieval.md § Embedding模型配置不存在时的降级")
async def test_two_replicas_at_once_make_one_default(database_url: str) -> None:
    """skill-vector-retrieval.md § Embedding模型配置不存在时的降级"""

    async def start() -> str:
        async with open_registry_store(database_url) as store:
            return (await replica(store).registry.ensure_default()).id

    ids = await asyncio.gather(*(start() for _ in range(4)))
    assert len(set(ids)) == 1


OPEN = """
import asyncio, sys
from skillbus.embedder.adapters.sql.registry_store import open_registry_store
async def main():
    sys.stdin.readline()
    async with open_registry_store(sys.argv[1]) as store:
        print(len((await store.load()).providers))
asyncio.run(main())
"""


async def test_processes_that_make_the_tables_at_once_wait_for_one_another(database_url: str) -> None:
    pipe = asyncio.subprocess.PIPE
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPEN, database_url, stdin=pipe, stdout=pipe, stderr=pipe
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(40):
        outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in started))
    assert [(process.returncode, output) for process, output in zip(started, outputs, strict=True)] == [
        (0, (b"0\n", b""))
    ] * 2


async def test_models_made_at_once_are_all_kept(store: SqlRegistryStore, one: Replica) -> None:
    others = [one, replica(store), replica(store)]
    made = [
        other.registry.create_model(CreateModel(provider="openai", name=f"m{place}", dimensions=8))
        for place, other in enumerate(others)
    ]
    await asyncio.gather(*made)
    assert {model.name for model in (await store.load()).models} == {"use-multilingual-v3", "m0", "m1", "m2"}


async def test_of_a_name_given_many_times_at_once_one_is_kept(one: Replica, store: SqlRegistryStore) -> None:
    others = [one, *(replica(store) for _ in range(2))]
    request = CreateModel(provider="openai", name="same", dimensions=8)
    made = [other.registry.create_model(request) for other in others for _ in range(3)]
    outcomes = await asyncio.gather(*made, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ModelRecord"] + ["NameTakenError"] * 8


async def test_no_change_of_several_replicas_is_lost(one: Replica, store: SqlRegistryStore) -> None:
    others = [one, *(replica(store) for _ in range(3))]
    changes = [
        other.registry.update_model(UpdateModel(id="use-multilingual-v3", priority=10 * place + step))
        for place, other in enumerate(others)
        for step in range(5)
    ]
    async with asyncio.timeout(20):
        changed = await asyncio.gather(*changes)
    assert sorted(model.version for model in changed) == list(range(2, 22))


async def test_a_default_made_by_two_at_once_is_one(store: SqlRegistryStore, one: Replica) -> None:
    other = replica(store)
    await asyncio.gather(
        one.registry.create_model(CreateModel(provider="openai", name="a", dimensions=8, is_default=True)),
        other.registry.create_model(CreateModel(provider="openai", name="b", dimensions=8, is_default=True)),
    )
    assert sum(model.is_default for model in (await store.load()).models) == 1


async def test_tables_of_a_newer_skillbus_are_left_alone(database_url: str, tables: Database) -> None:
    await tables.write(partial(execute, statement="UPDATE embedding_registry_version SET version_num = '9999'"))
    with pytest.raises(RegistryVersionError):
        async with open_registry_store(database_url):
            pass


async def test_a_row_that_somebody_spoiled_by_hand_is_named(tables: Database, one: Replica) -> None:
    await tables.write(
        partial(execute, statement="UPDATE embedding_providers SET kind = 'telepathy' WHERE name = 'openai'")
    )
    one.registry.invalidate()
    with pytest.raises(RegistryUnavailableError, match="Provider"):
        await one.registry.load_snapshot()
