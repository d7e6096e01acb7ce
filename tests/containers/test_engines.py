"""Suites that run on engines in process or as a child, here on the engines' own containers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker
import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

from .compose import ROOT, is_qdrant_stand_in

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

CONTRACT: Final = "tests/integration/vectors/test_contract.py"
OF_THE_BUS: Final = tuple(
    f"tests/integration/common/test_{name}.py"
    for name in ("events", "jetstream_batch", "kv_records", "last_values", "objects", "provisioning", "requests")
)
"""One file for each feature of the server that skillbus uses. The other files test what is built on these."""
INSERT_ONLY: Final = f"{CONTRACT}::test_insert_only_never_overwrites_a_newer_write[server]"


def image(pattern: str) -> str:
    """An image as docker-compose.yml names it, so that what is tested is what is deployed."""
    found = re.search(pattern, ROOT.joinpath("docker-compose.yml").read_text())
    assert found is not None
    return found.group(1)


@dataclass(frozen=True, slots=True)
class Suite:
    """A run of pytest in a process of its own: the suites find their engine by the environment when collected."""

    process: subprocess.Popen[bytes]
    output: Path

    def passes(self) -> None:
        code = self.process.wait()
        said = self.output.read_text("utf-8")
        print(said)  # noqa: T201 - pytest shows it with a failure
        assert code == 0, said[-6000:]


@contextmanager
def running(output: Path, *arguments: str, **environment: str) -> Iterator[Suite]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdout=file, stderr=file)
    try:
        yield Suite(process, output)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def qdrant(engine: docker.DockerClient) -> Iterator[Mapping[str, str]]:
    """Environment of the suites for a server in a container."""
    container = DockerContainer(image(r"image: (qdrant/qdrant:\S+)")).with_exposed_ports(6333, 6334)
    with container.waiting_for(HttpWaitStrategy(6333, "/readyz")) as started:
        port = 0 if is_qdrant_stand_in() else started.get_exposed_port(6334)
        yield {
            "SKILLBUS_TEST_QDRANT_URL": f"http://{started.get_container_host_ip()}:{started.get_exposed_port(6333)}",
            "SKILLBUS_TEST_QDRANT_GRPC_PORT": str(port),
        }


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
    with container.waiting_for(HttpWaitStrategy(8222, "/healthz")) as started:
        yield f"nats://{started.get_container_host_ip()}:{started.get_exposed_port(4222)}"


@pytest.fixture(scope="module")
def suites(
    qdrant: Mapping[str, str], nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Suite, Suite]]:
    """The suites of the vector store and of the bus, which run beside each other: both mostly wait for their engine."""
    folder = tmp_path_factory.mktemp("suites")
    of_vectors = (CONTRACT, "-k", "server", "--deselect", INSERT_ONLY)
    with (
        running(folder / "vectors", *of_vectors, **qdrant) as vectors,
        running(folder / "bus", *OF_THE_BUS, SKILLBUS_TEST_NATS_URL=nats_url) as bus,
    ):
        yield vectors, bus


def test_a_qdrant_server_keeps_the_contract_of_the_vector_store(suites: tuple[Suite, Suite]) -> None:
    suites[0].passes()


def test_the_bus_works_on_a_nats_container(suites: tuple[Suite, Suite]) -> None:
    suites[1].passes()


def test_a_qdrant_server_never_overwrites_what_it_has_in_insert_only_mode(
    qdrant: Mapping[str, str], tmp_path: Path
) -> None:
    if is_qdrant_stand_in():
        pytest.skip("the image is a stand-in for Qdrant, which ignores update_mode: only the real server can show it")
    with running(tmp_path / "output", INSERT_ONLY, **qdrant) as suite:
        suite.passes()
