"""Suites that run on engines in process or as a child, here on the engines' own containers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
import httpx
import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

from .compose import ROOT

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

CONTRACT: Final = "tests/integration/vectors/test_contract.py"
INSERT_ONLY: Final = f"{CONTRACT}::test_insert_only_never_overwrites_a_newer_write[server]"


def image(pattern: str) -> str:
    """An image as docker-compose.yml names it, so that what is tested is what is deployed."""
    found = re.search(pattern, ROOT.joinpath("docker-compose.yml").read_text())
    assert found is not None
    return found.group(1)


def passes(*arguments: str, **environment: str) -> None:
    """Run pytest in a process of its own: those suites find their engine by the environment when they are collected."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)  # noqa: T201 - pytest shows it with a failure
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def qdrant_url(engine: docker.DockerClient) -> Iterator[str]:
    container = DockerContainer(image(r"image: (qdrant/qdrant:\S+)")).with_exposed_ports(6333)
    with container.waiting_for(HttpWaitStrategy(6333, "/readyz")) as running:
        yield f"http://{running.get_container_host_ip()}:{running.get_exposed_port(6333)}"


@pytest.fixture(scope="module")
def nats_url(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config: Path = tmp_path_factory.mktemp("nats") / "nats.conf"
    config.write_text('http: 8222\njetstream { store_dir: "/tmp/jetstream", sync_interval: always }\n')
    config.parent.chmod(0o755)
    container = (
        DockerContainer(image(r'NATS_IMAGE: "(nats:\S+)"'))
        .with_command("--config /etc/nats/test.conf")
        .with_volume_mapping(str(config), "/etc/nats/test.conf", "ro")
        .with_exposed_ports(4222, 8222)
    )
    with container.waiting_for(HttpWaitStrategy(8222, "/healthz")) as running:
        yield f"nats://{running.get_container_host_ip()}:{running.get_exposed_port(4222)}"


def test_a_qdrant_server_keeps_the_contract_of_the_vector_store(qdrant_url: str) -> None:
    passes(CONTRACT, "-k", "server", "--deselect", INSERT_ONLY, SKILLBUS_TEST_QDRANT_URL=qdrant_url)


def test_a_qdrant_server_never_overwrites_what_it_has_in_insert_only_mode(qdrant_url: str) -> None:
    if httpx.get(qdrant_url, trust_env=False).json().get("commit") == "stand-in":
        pytest.skip("the image is a stand-in for Qdrant, which ignores update_mode: only the real server can show it")
    passes(INSERT_ONLY, SKILLBUS_TEST_QDRANT_URL=qdrant_url)


def test_the_bus_works_on_a_nats_container(nats_url: str) -> None:
    passes("tests/integration/common", SKILLBUS_TEST_NATS_URL=nats_url)
