"""A world with one server of two tools, and a registry that follows it."""

from collections.abc import AsyncGenerator

import pytest

from skillbus.agent.domain.servers.registry import ServerRegistry

from .fakes import QUICK, World, tool


@pytest.fixture
def world() -> World:
    found = World()
    found.server.tools = [tool("one"), tool("two")]
    return found


@pytest.fixture
async def servers(world: World) -> AsyncGenerator[ServerRegistry]:
    opened = ServerRegistry(world.ports(), QUICK)
    async with opened.follow_all(world.changes):
        yield opened
