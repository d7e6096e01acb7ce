"""The wheels of `make dist` install alone: each has its files, and finds what it imports among what it declares."""

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from tests.architecture.tree import ROOT, distributions

UV: Final = shutil.which("uv", path=f"{sysconfig.get_path('scripts')}:{Path('/usr/bin')}") or "uv"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of every distribution."""
    folder = tmp_path_factory.mktemp("dist")
    build = [UV, "build", "--all-packages", "--wheel", "--offline", "--quiet", "--out-dir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=150)
    return folder


def find_requirements(name: str) -> Iterator[Distribution]:
    """Yield a distribution and all that it declares, with their own, without what only its extras need."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "")]
    while waiting:
        entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        found = distribution(entry[0])
        if not entry[1]:
            yield found
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": entry[1]}):
                waiting += [(needed.name, extra) for extra in ("", *needed.extras)]


def install(name: str, wheels: Path, site: Path) -> None:
    """Install a distribution with those of this repository from its wheels, and link what others publish."""
    needed = {found.name: found for found in find_requirements(name)}
    ours = {member.name for member in distributions()} & needed.keys()
    command = [UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*command, "--find-links", str(wheels), *sorted(ours)], check=True, timeout=150)
    for found in (needed[name] for name in needed.keys() - ours):
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))


def build_command(site: Path, program: str, *arguments: str) -> list[str]:
    """Return the command for a program that sees the standard library and the folder, and nothing else."""
    start = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    return [sys.executable, "-I", "-S", "-c", start + program, *arguments]


def run_python(site: Path, program: str, *arguments: str) -> str:
    command = build_command(site, program, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_document(process: subprocess.Popen[str]) -> dict[str, str]:
    """Return the JSON document that `up --json` prints when it is ready."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            document: dict[str, str] = json.loads(text)
            return document
    raise AssertionError("it ended without being ready")


def test_there_is_a_wheel_of_every_distribution(wheels: Path) -> None:
    names = {wheel.name.split("-")[0].replace("_", "-") for wheel in wheels.glob("*.whl")}
    assert names == {member.name for member in distributions()}


def test_the_client_needs_only_what_it_declares_and_little_room(wheels: Path, tmp_path: Path) -> None:
    install("skillbus-client", wheels, tmp_path)
    program = """
from skillbus.client import Skillbus
from skillbus.client.errors import ServerUnreachableError
try:
    with Skillbus("http://127.0.0.1:1", retries=0) as skillbus:
        skillbus.search_tools(query="a commit message")
except ServerUnreachableError:
    print("asked")
try:
    import skillbus.common
except ModuleNotFoundError:
    print("alone")
"""
    assert run_python(tmp_path, program).split() == ["asked", "alone"]
    own = sum(file.stat().st_size for file in (tmp_path / "skillbus").rglob("*") if file.is_file())
    assert own < 1_200_000


def test_the_whole_starts_without_its_extras_and_finds_its_tools(wheels: Path, tmp_path: Path) -> None:
    site, data = tmp_path / "site", str(tmp_path / "data")
    install("skillbus", wheels, site)
    assert not list(site.glob("onnxruntime*"))
    skillbus = "from skillbus.cli.__main__ import main; main()"
    up = build_command(site, skillbus, "up", "--data", data, "--http-port", "0", "--json")
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(up, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            read_document(server)
            assert "builtin:datetime" in run_python(site, skillbus, "search", "days between two dates", "--data", data)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0, (tmp_path / "log").read_text()
    assert (site / "bin" / "skillbus").exists()
