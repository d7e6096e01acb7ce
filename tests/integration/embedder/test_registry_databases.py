"""Databases that cannot be opened, that go away, and what their errors show."""

import asyncio
import socket
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.adapters.sql.registry_store import open_registry_store
from skillbus.embedder.domain.registry.errors import RegistryUnavailableError, RegistryUrlError

from ...postgres import Postgres, database
from ...unit.embedder.registry_fakes import replica

SECRET = "pa55-w0rd-of-ours"


async def refused(url: str) -> RegistryUnavailableError:
    with pytest.raises(RegistryUnavailableError) as error:
        async with asyncio.timeout(20), open_registry_store(url):
            pass
    assert error.value.code is ErrorCode.UNAVAILABLE
    return error.value


@pytest.mark.parametrize(
    "url",
    [
        "",
        "registry.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        f"mysql://root:{SECRET}@db/skillbus",
        f"postgresql://user:{SECRET}@db:not-a-port/skillbus",
        f"postgresql+psycopg2://user:{SECRET}@db/skillbus",
        f"sqlite+pysqlcipher://:{SECRET}@/x.db",
    ],
)
async def test_a_url_that_names_no_database_of_ours_is_refused_with_the_forms_that_do(url: str) -> None:
    error = await refused(url)
    assert isinstance(error, RegistryUrlError)
    assert "sqlite:///" in str(error)
    assert SECRET not in str(error)


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = await refused(f"sqlite:///{tmp_path}/nowhere/registry.db")
    assert f"{tmp_path}/nowhere" in str(error)
    assert not (tmp_path / "nowhere").exists()


async def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    file.write_bytes(b"not a database " * 100)
    assert str(file) in str(await refused(f"sqlite:///{file}"))
    assert file.read_bytes() == b"not a database " * 100


async def test_sqlite_is_read_while_another_process_writes_and_written_when_it_is_done(tmp_path: Path) -> None:
    async with open_registry_store(f"sqlite:///{tmp_path}/registry.db") as store:
        registry = replica(store).registry
        other = sqlite3.connect(tmp_path / "registry.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(5):
                assert (await registry.load_snapshot()).models == ()
                writing = asyncio.create_task(registry.ensure_default())
                await registry.load_snapshot()
            other.execute("COMMIT")
            async with asyncio.timeout(5):
                assert (await writing).is_default
        finally:
            other.close()


@pytest.mark.parametrize("wrong", ["password", "user", "database", "parameter"])
async def test_a_postgresql_that_lets_nobody_in_says_why_without_the_password(postgres: Postgres, wrong: str) -> None:
    url = make_url(postgres.url)
    password = SECRET if wrong in {"password", "user"} else str(url.password)
    url = url.set(password=password, username="nobody" if wrong == "user" else url.username)
    url = url.set(database="nowhere") if wrong == "database" else url
    url = url.update_query_dict({"telepathy": "on"}) if wrong == "parameter" else url
    error = await refused(url.render_as_string(hide_password=False))
    assert password not in "".join(map(str, (error, error.__cause__)))


async def test_a_server_that_does_not_listen_is_named_without_the_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = await refused(f"postgresql://skillbus:{SECRET}@127.0.0.1:{port}/skillbus")
    assert f"127.0.0.1:{port}" in str(error)
    assert SECRET not in str(error)


async def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = await refused(f"postgresql://skillbus:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/skillbus")
    assert SECRET not in str(error)


async def test_parameters_as_libpq_writes_them_are_read(postgres: Postgres) -> None:
    async with database(postgres) as url:
        with_mode = make_url(url).update_query_dict({"sslmode": "disable"}).render_as_string(hide_password=False)
        async with open_registry_store(with_mode.replace("postgresql:", "postgres:")) as store:
            assert (await store.load()).revision == 0


async def test_a_postgresql_that_was_restarted_is_used_again(postgres: Postgres) -> None:
    async with database(postgres) as url, open_registry_store(url) as store:
        registry = replica(store).registry
        default = await registry.ensure_default()
        await registry.load_snapshot()
        postgres.stop()
        postgres.start()
        registry.invalidate()
        assert await registry.ensure_default() == default, "its broken connections are not used again"
        postgres.stop()
        try:
            assert (await registry.ensure_default()) == default, "the copy needs no database"
            registry.invalidate()
            with pytest.raises(RegistryUnavailableError):
                await registry.ensure_default()
        finally:
            postgres.start()
        assert await registry.ensure_default() == default
