"""A knowledge base on SQLite and on PostgreSQL; a learner on the bus."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from pydantic import SecretStr

from skillbus.common.bus.connection import Bus
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner

from .knowledge import Knowledge, open_knowledge


@pytest.fixture
async def knowledge(database_url: str) -> AsyncGenerator[Knowledge]:
    async with open_knowledge(database_url) as opened:
        yield opened


@pytest.fixture
async def learner(bus: Bus, tmp_path: Path) -> AsyncGenerator[Bus]:
    """The bus that it is on. There is no index: its replies do not wait for one."""
    settings = LearnerSettings(
        database_url=SecretStr(f"sqlite:///{tmp_path / 'knowledge.db'}"), data=tmp_path, wait_indexed_s=0
    )
    async with open_learner(bus, settings):
        yield bus
