"""What a transport in memory cannot show: a real socket, on loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skillbus.cli.server.launcher import Externals

from .conftest import CommandLine
from .fake_server import skill_record


class _Collector(BaseHTTPRequestHandler):
    """Answers every upload, and keeps its body."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(skill_record("packed") | {"outcome": "installed"}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass


@pytest.fixture
def listening() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []
    handler = type("Collector", (_Collector,), {"bodies": bodies})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join(5)


def test_a_package_goes_over_the_wire_whole_and_past_the_proxies_of_the_environment(
    skillbus: CommandLine, listening: tuple[str, list[bytes]], skill_zip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, bodies = listening
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    result = skillbus("install", "--url", url, str(skill_zip), externals=Externals())

    assert result.exit_code == 0, result.output
    assert skill_zip.read_bytes() in bodies[0]


def test_a_port_where_nobody_listens_is_exit_3(skillbus: CommandLine) -> None:
    assert skillbus("status", "--url", "http://127.0.0.1:1", externals=Externals()).exit_code == 3
