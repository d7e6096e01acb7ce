"""The wheels of `make dist`, installed into environments that have nothing but what they declare."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .conftest import Start

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).parent / "uv"


def run_uv(*words: str, **variables: str) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(
        # Links into uv's cache, which `make setup` has filled: copies would be a third of a gigabyte.
        [UV, *words],
        cwd=ROOT,
        env={**clean, "UV_LINK_MODE": "symlink", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    run_uv("build", "--all-packages", "--wheel", "--quiet", "--out-dir", str(place))
    assert len(list(place.glob("*.whl"))) == 1 + sum(1 for _ in ROOT.glob("*/*/pyproject.toml"))
    return place


def install(distribution: str, wheels: Path, place: Path) -> Path:
    """Install the locked packages of others that a distribution declares, and then it from its wheels alone."""
    others = ("--locked", "--no-dev", "--no-install-workspace", "--package", distribution)
    run_uv("sync", *others, "--python", sys.executable, UV_PROJECT_ENVIRONMENT=str(place))
    run_uv("pip", "install", "--python", str(place), "--no-index", "--find-links", str(wheels), distribution)
    return place / "bin"


async def test_the_command_starts_and_finds_its_tools(wheels: Path, tmp_path: Path, start: Start) -> None:
    programs = install("skillbus", wheels, tmp_path / "environment")
    skillbus, data = (str(programs / "skillbus"),), str(tmp_path / "data")
    # The same packages of others, compiled already: compiling them takes seconds. skillbus itself is not found there,
    # because links of editable packages in a folder of PYTHONPATH are not followed.
    compiled = {"PYTHONPATH": sysconfig.get_path("purelib")}
    up = ("up", "--data", data, "--http-port", "0", "--json")
    server = await start(*up, program=skillbus, environment=compiled)
    await server.document()
    search = await start("search", "days between two dates", "--data", data, program=skillbus, environment=compiled)
    assert "builtin:datetime" in await search.output()
    assert await search.ended() == 0
    assert await server.stop() == 0


async def test_the_client_alone_needs_little(wheels: Path, tmp_path: Path, start: Start) -> None:
    programs = install("skillbus-client", wheels, tmp_path / "environment")
    code = "import importlib.util as i; from skillbus.client import Skillbus; print(i.find_spec('skillbus.common'))"
    imported = await start("-c", code, program=(str(programs / "python"),))
    assert await imported.output() == "None\n", imported.errors()
