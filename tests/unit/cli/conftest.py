import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skillbus.cli.__main__ import create_app
from skillbus.cli.server.launcher import Externals

from .fake_server import FakeServer


@dataclass(frozen=True)
class CommandLine:
    """Runs the command against a fake server."""

    server: FakeServer

    def __call__(self, *words: str, stdin: str | None = None, externals: Externals | None = None) -> Result:
        given = externals or Externals(transport=self.server.transport())
        return CliRunner().invoke(create_app(), list(words), input=stdin, obj=given)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def skillbus(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in (
        "SKILLBUS_URL",
        "SKILLBUS_API_KEY",
        "SKILLBUS_OWNER_KEY",
        "SKILLBUS_DATA",
        "COLUMNS",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
    ):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(server)


@pytest.fixture
def skill_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "greet"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: says hello\n---\n")
    (folder / "scripts" / "main.py").write_text("print('hello')\n")
    return folder


@pytest.fixture
def skill_zip(tmp_path: Path) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        target.writestr("SKILL.md", "---\nname: packed\ndescription: was packed before\n---\n")
    path = tmp_path / "packed.zip"
    path.write_bytes(buffer.getvalue())
    return path
