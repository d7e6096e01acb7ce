"""The sandbox's image under the seccomp profile of the deployment, without Compose in between."""

from pathlib import Path

import docker
import pytest

from .compose import ROOT, Stack, is_podman

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

PROFILE = ROOT / "deploy" / "seccomp-sandbox.json"
PROBE = """
import asyncio, ctypes, os, pathlib, socket
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation

KEYCTL, IO_URING_SETUP = {"x86_64": (250, 425), "aarch64": (219, 425)}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)

def denied(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments) == -1 and ctypes.get_errno() == 1

def family_denied(family):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
    except PermissionError:
        return True
    return False

report = asyncio.run(BubblewrapIsolation().probe())
answer = f"{report.level} {','.join(sorted(report.runtimes))} keyctl {denied(KEYCTL, 0, -3, 0)}"
answer += f" io_uring {denied(IO_URING_SETUP, 0, 0)} vsock {family_denied(40)}"
pathlib.Path("/probe/answer").write_text(answer)
"""


@pytest.fixture(scope="module")
def image(stack: Stack) -> str:
    """The image that the deployment runs. To build it again takes seconds, though every layer is in the cache."""
    named = stack.compose.command("config", "--images", "sandbox").split()  # with those that it depends on
    return next(name for name in named if name.startswith("skillbus-sandbox:"))


def profile() -> str:
    """The profile as the engine's API takes it: Docker wants the text, Podman a path on its machine."""
    return str(PROFILE) if is_podman() else PROFILE.read_text()


def run(engine: docker.DockerClient, image: str, tmp_path: Path, *options: str) -> str:
    """Run the probe, and return what it answers in a file: the log of a container that ends may lack its last lines."""
    tmp_path.joinpath("probe.py").write_text(PROBE)
    tmp_path.chmod(0o777)  # the image's user writes the answer
    log = engine.containers.run(
        image,
        ["python", "/probe/probe.py"],
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", *options],
        read_only=True,
        tmpfs={"/tmp": "size=64m,mode=1777"},
        network_mode="none",
        volumes={str(tmp_path): {"bind": "/probe", "mode": "rw"}},
        remove=True,
    )
    print(log.decode())  # noqa: T201 - pytest shows it with a failure
    return tmp_path.joinpath("answer").read_text()


def test_the_profile_of_the_deployment_lets_runs_be_isolated_and_little_else(
    engine: docker.DockerClient, image: str, tmp_path: Path
) -> None:
    said = run(engine, image, tmp_path, f"seccomp={profile()}")
    assert said == "container bash,node,python keyctl True io_uring True vsock True"


def test_without_the_profile_nothing_is_run(engine: docker.DockerClient, image: str, tmp_path: Path) -> None:
    with pytest.raises(docker.errors.ContainerError, match="SandboxUnavailable"):
        run(engine, image, tmp_path)
