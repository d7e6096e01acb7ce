"""An engine, and on it the whole deployment, once for all tests."""

import os
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import docker
import pytest

from .compose import Stack, deployed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs no deployment first: each health check of the nine containers takes time from everything else."""
    items.sort(key=lambda item: "stack" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A client of the container engine; skips where none listens."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        _connect(host)
    except OSError as error:
        pytest.skip(f"no container engine listens at {host}: {error}. Start one, or name it by DOCKER_HOST")
    client = docker.from_env(timeout=60)
    try:
        yield client
    finally:
        client.close()


def _connect(host: str) -> None:
    # Not by the client: one that cannot connect leaves a socket open, and warnings are errors.
    address = urlsplit(host)
    if address.scheme == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(address.path)
    else:
        with socket.create_connection((address.hostname, address.port or 2375), timeout=5):
            pass


@pytest.fixture(scope="session")
def stack(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with deployed(tmp_path_factory.mktemp("compose")) as running:
        yield running
