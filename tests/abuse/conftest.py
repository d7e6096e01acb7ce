"""Canaries for the whole suite, and a sandbox for each way of running skills."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.integration.code_mode.conftest import code_mode  # noqa: F401 - a fixture

from skillbus.sandbox.adapters.bubblewrap.installation import find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.errors import SandboxUnavailable
from skillbus.sandbox.domain.run.spec import IsolationLevel

from .canaries import Planted, planted
from .harness import USER, WAYS, Harness, Way, opened
from .model import Abuse, find_runtime


@pytest.fixture(scope="package")
def canaries() -> Iterator[Planted]:
    with planted(USER if os.geteuid() == 0 else None) as found:
        yield found


@pytest.fixture
def its_language(abuse: Abuse) -> None:
    runtime = find_runtime(abuse.payload)
    if runtime not in find_installation().runtimes:
        pytest.skip(f"{runtime} is not installed")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS, ids=str)
async def harness(request: pytest.FixtureRequest, canaries: Planted) -> AsyncIterator[Harness]:
    """A sandbox as it is meant to be; a level that does not hold here is skipped."""
    way: Way = request.param
    try:
        async with opened(way, canaries) as made:
            yield made
    except SandboxUnavailable as unavailable:
        pytest.skip(f"level {way.level} does not hold here: {unavailable}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strongest() -> IsolationLevel:
    """The strongest level that holds on this machine."""
    try:
        return (await BubblewrapIsolation(user=USER).probe()).level
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
