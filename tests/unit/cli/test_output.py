import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.output import CommandOutput, clean_line, clean_text, format_size

from .conftest import CommandLine
from .fake_server import FakeServer, hit


def test_there_are_no_control_characters_without_a_terminal(skillbus: CommandLine, server: FakeServer) -> None:
    server.hits = [hit("git-commit")]

    for words in (["search", "提交"], ["status"], ["skills", "list"], ["skills", "remove", "--yes", "x"], ["--help"]):
        result = skillbus(*words)
        assert "\x1b" not in result.output
        assert "\r" not in result.output


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_are_for_terminals_and_not_where_no_color_is_set(
    no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, color_system="standard", width=60)

    CommandOutput(as_json=False, out=terminal, err=terminal).print_text(Text("x", "red"))

    assert ("\x1b[31m" in stream.getvalue()) is not no_color


def test_a_progress_bar_is_drawn_on_terminals_only() -> None:
    drawn, silent = io.StringIO(), io.StringIO()
    for stream, terminal in ((drawn, True), (silent, False)):
        console = Console(file=stream, force_terminal=terminal, width=60)
        with CommandOutput(as_json=False, out=console, err=console).show_progress("Installing", 2) as next_item:
            next_item("greet")

    assert "Installing" in drawn.getvalue()
    assert silent.getvalue() == ""


def test_json_is_ascii_where_the_stream_cannot_write_more() -> None:
    code = "from skillbus.cli.output import format_json; print(format_json({'名': '提交'}))"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "latin-1"}, timeout=30)

    assert ran.stdout.isascii()
    assert json.loads(ran.stdout) == {"名": "提交"}


def test_control_characters_are_shown_and_text_is_kept() -> None:
    assert clean_text("提交 ok\n\tx") == "提交 ok\n\tx"
    assert clean_text("a\x1b[31m\x9b\u202eb\rc") == "a�[31m��b�c"
    assert clean_text("a\r\nb") == "a\nb"
    assert clean_line("a\n  b\tc") == "a b c"


@pytest.mark.parametrize(
    ("size_bytes", "shown"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (20_000_000, "20.0 MB")]
)
def test_sizes_are_for_people(size_bytes: int, shown: str) -> None:
    assert format_size(size_bytes) == shown


HELP_PAGES = [
    (["--help"], ["httpx", "pydantic", "rich", "nats", "structlog", "uvloop"]),
    (["up", "--help"], ["httpx", "nats", "structlog", "uvloop", "skillbus.contracts", "skillbus.standalone.app"]),
    (["status", "--help"], ["httpx", "nats", "skillbus.contracts"]),
    (["search", "--help"], ["httpx", "nats", "structlog", "uvloop", "skillbus.contracts.http"]),
    (["models", "calibrate", "--help"], ["httpx", "nats", "numpy", "skillbus.calibration"]),
]
"""Pages and modules that are slow to import, in an order in which no page may import what a later one must not."""


def test_help_pages_import_nothing_slow() -> None:
    code = (
        "import json, sys; from skillbus.cli.__main__ import create_app\n"
        "for words, slow in json.loads(sys.argv[1]):\n"
        "    create_app()(words, standalone_mode=False)\n"
        "    print(words, [name for name in slow if name in sys.modules], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(HELP_PAGES)]
    ran = subprocess.run(command, capture_output=True, check=True, text=True, timeout=30)

    assert ran.stderr.splitlines() == [f"{words} []" for words, _ in HELP_PAGES]


def test_a_search_imports_no_http2_and_no_other_command_line() -> None:
    code = (
        "import atexit, gc, sys; from skillbus.cli.__main__ import main; "
        "atexit.register(lambda: print({'click', 'h2', 'pygments'} & sys.modules.keys(), gc.isenabled())); main()"
    )
    command = [sys.executable, "-c", code, "search", "x", "--url", "http://127.0.0.1:9", "--api-key", "k"]
    ran = subprocess.run(command, capture_output=True, check=False, text=True, timeout=30)

    assert (ran.returncode, ran.stdout.strip()) == (3, "set() True")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_behind_standard_output_is_told_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "skillbus.cli", "tools", "list", "--help"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "Error: cannot write to standard output: No space left on device\n"


def test_help_documents_the_exit_codes(skillbus: CommandLine) -> None:
    shown = " ".join(skillbus("--help").stdout.split())

    assert "0 success, 1 failure, 2 wrong usage, 3 server not reachable" in shown


def test_titles_do_not_make_rows_of_a_pipe_wider_than_200_columns() -> None:
    stream = io.StringIO()
    row = ("0" * 36, "troubleshooting", "pending", "service:payments", "a very long title " * 30)
    console = Console(file=stream, width=100_000, color_system=None)
    console.print(tables.build_table(("id", "type", "status", "scope", "title"), [row]))
    assert max(map(len, stream.getvalue().splitlines())) <= 200
