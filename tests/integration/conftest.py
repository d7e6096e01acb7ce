"""The databases that records are kept in."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from ..postgres import Postgres, database, open_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with open_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'records.db'}"
        return
    async with database(request.getfixturevalue("postgres")) as url:
        yield url
