"""An engine, and on it the whole deployment, once for all tests."""

from collections.abc import Iterator

import docker
import pytest
from docker.errors import DockerException

from .compose import Stack, deployed


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A client of the container engine; skips where there is none."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except DockerException as error:
        pytest.skip(f"there is no container engine (DOCKER_HOST, or Docker's own socket): {error}")
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def stack(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with deployed(tmp_path_factory.mktemp("compose")) as running:
        yield running
