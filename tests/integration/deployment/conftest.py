"""The bus of a deployment, one server for each module."""

from collections.abc import Iterator

import pytest

from ...deployed_bus import DeployedBus, run_deployed_bus


@pytest.fixture(scope="module")
def bus_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedBus]:
    with run_deployed_bus(tmp_path_factory.mktemp("bus")) as bus:
        yield bus
