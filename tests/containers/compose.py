"""The Compose deployment as tests drive it."""

import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import docker
import httpx
from testcontainers.compose import DockerCompose

ROOT = Path(__file__).parents[2]
PODMAN_OVERRIDE = "tests/containers/podman.yml"


class Compose(DockerCompose):
    """Testcontainers' Compose, by whichever command there is: `docker-compose`, or the plugin of `docker`."""

    @cached_property
    def compose_command_property(self) -> list[str]:
        command = super().compose_command_property
        return ["docker-compose", *command[2:]] if shutil.which("docker-compose") else command

    def command(self, *arguments: str) -> str:
        """Run a command of Compose to its end; its output."""
        done = subprocess.run(
            [*self.compose_command_property, *arguments], cwd=self.context, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"compose {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout


@dataclass(frozen=True, slots=True)
class Stack:
    """A running deployment."""

    compose: Compose
    url: str
    owner_key: str

    def client(self, timeout_s: float = 30.0) -> httpx.Client:
        """An HTTP client with the owner's key."""
        headers = {"Authorization": f"Bearer {self.owner_key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)


def is_podman() -> bool:
    """Whether the engine behind Docker's API is Podman."""
    client = docker.from_env()
    try:
        components = client.version().get("Components", [])
    finally:
        client.close()
    return any("Podman" in component.get("Name", "") for component in components)


def is_qdrant_stand_in() -> bool:
    """Whether the image of Qdrant is a stand-in that knows one key only, and no gRPC."""
    client = docker.from_env()
    try:
        [name] = re.findall(r"image: (qdrant/qdrant:\S+)", (ROOT / "docker-compose.yml").read_text())
        return any("stand_in" in word for word in client.images.get(name).attrs["Config"]["Cmd"] or [])
    except docker.errors.ImageNotFound:
        return False
    finally:
        client.close()


def write_environment(path: Path, **given: str) -> None:
    """`.env` with the values of `given`, and those of `.env.example` for the rest."""
    values = {}
    for line in (ROOT / ".env.example").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name] = value
    path.write_text("".join(f"{name}={value}\n" for name, value in (values | given).items()))


def init_deployment(folder: Path, *options: str) -> None:
    """Make the secrets of a deployment as its operator does."""
    command = [sys.executable, "-m", "skillbus.cli", "init-deploy", "--folder", str(folder), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def deployed(folder: Path) -> Generator[Stack]:
    """The whole deployment, built, started and healthy; taken down with its volumes."""
    port = free_port()
    init_deployment(folder / "secrets", "--tls")
    if is_qdrant_stand_in():
        shutil.copyfile(folder / "secrets" / "qdrant-key", folder / "secrets" / "qdrant-read-only-key")
    write_environment(
        folder / ".env",
        SKILLBUS_QDRANT_GRPC_PORT="0" if is_qdrant_stand_in() else "6334",
        COMPOSE_PROJECT_NAME=f"skillbus-test-{secrets.token_hex(4)}",
        SKILLBUS_HTTP_PORT=str(port),
        SKILLBUS_SECRETS_FOLDER=str(folder / "secrets"),
    )
    files = ["docker-compose.yml", "deploy/docker-compose.tls.yml", *([PODMAN_OVERRIDE] if is_podman() else [])]
    compose = Compose(context=ROOT, compose_file_name=files, env_file=str(folder / ".env"), build=True, wait=True)
    try:
        compose.start()
        yield Stack(compose, f"http://127.0.0.1:{port}", (folder / "secrets" / "owner-key").read_text().strip())
    except BaseException:
        print(compose.command("logs", "--no-color", "--tail", "100"))  # noqa: T201 - pytest shows it with the failure
        raise
    finally:
        compose.stop()
