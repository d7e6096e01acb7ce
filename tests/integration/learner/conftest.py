"""A knowledge base on SQLite and on PostgreSQL; a learner on the bus."""

import shutil
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus
from skillbus.learner.adapters.sql.tables import METADATA
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

from ...postgres import Postgres, create_database, drop_database, empty_tables, run_apart
from .knowledge import Knowledge, create_tables, open_knowledge


@pytest.fixture(scope="session")
def sqlite_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, to be copied."""
    file = tmp_path_factory.mktemp("knowledge") / "empty.db"
    run_apart(create_tables(f"sqlite:///{file}"))
    return file


@pytest.fixture(scope="session")
def postgres_tables(postgres: Postgres) -> Iterator[str]:
    """URL of a PostgreSQL database with tables, which each test empties."""
    url = run_apart(create_database(postgres))
    run_apart(create_tables(url))
    yield url
    run_apart(drop_database(postgres, url))


@pytest.fixture(params=["sqlite", "postgresql"])
async def knowledge_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with empty tables, of either kind."""
    if request.param == "sqlite":
        copy = shutil.copy(request.getfixturevalue("sqlite_tables"), tmp_path / "knowledge.db")
        return f"sqlite:///{copy}"
    url: str = request.getfixturevalue("postgres_tables")
    await empty_tables(url, METADATA.tables)
    return url


@pytest.fixture
async def knowledge(knowledge_url: str) -> AsyncGenerator[Knowledge]:
    async with open_knowledge(knowledge_url) as opened:
        yield opened


@pytest.fixture
async def learner(bus: Bus, tmp_path: Path) -> AsyncGenerator[Bus]:
    """The bus that it is on. There is no index: its replies do not wait for one."""
    settings = LearnerSettings(
        database_url=SecretStr(f"sqlite:///{tmp_path / 'knowledge.db'}"), data=tmp_path, wait_indexed_s=0
    )
    async with open_learner(bus, settings):
        yield bus
