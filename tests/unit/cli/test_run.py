import json
import signal
from base64 import b64decode
from pathlib import Path

import pytest
from rich.console import Console

from skillbus.cli.output import CommandOutput
from skillbus.cli.runs.runner import print_output
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.http import RunReply

from .conftest import CommandLine
from .fake_server import FakeServer, artifact, problem, run_reply


def members(server: FakeServer) -> dict[str, object]:
    """What was asked for, but for the id of the run, which is made at random."""
    return {name: value for name, value in server.body().items() if name != "run_id"}


def test_files_and_arguments_travel_and_files_come_back(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    report, out = tmp_path / "report.xlsx", tmp_path / "out"
    report.write_bytes(b"PK\x00\xff")
    server.ran = run_reply(artifacts=[artifact("chart.svg", b"<svg/>")])
    arguments = '{"file":"report.xlsx"}'

    result = skillbus("run", "excel-analysis", "--file", str(report), "--args", arguments, "--out", str(out))

    assert result.exit_code == 0, result.output
    assert server.requests[0].url.path == "/api/skills/excel-analysis/run"
    assert server.body()["args"] == {"file": "report.xlsx"}
    files = server.body()["files"]
    assert isinstance(files, dict)
    assert b64decode(files["report.xlsx"]) == b"PK\x00\xff"
    assert (out / "chart.svg").read_bytes() == b"<svg/>"
    assert result.stdout == "done\n"
    assert "chart.svg" in result.stderr


def test_words_after_two_dashes_are_the_skills(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("run", "greet", "--", "--loud", "-n", "--", "x").exit_code == 0
    assert members(server) == {"argv": ["--loud", "-n", "--", "x"]}


def test_a_skill_is_run_by_the_id_that_a_search_shows(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("run", "skill:greet").exit_code == 0
    assert server.requests[0].url.path == "/api/skills/greet/run"


def test_an_action_before_two_dashes_is_ours(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("run", "greet", "wave", "--timeout", "5", "--project", "acme", "--").exit_code == 0
    assert members(server) == {"action": "wave", "argv": [], "timeout_s": 5.0}
    assert server.requests[0].url.params["project"] == "acme"


def test_standard_input_comes_from_a_file_or_from_ours(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("你好", encoding="utf-8")

    skillbus("run", "greet", "--stdin", str(tmp_path / "words.txt"))
    assert server.body()["stdin"] == "你好"
    skillbus("run", "greet", "--stdin", "-", stdin="世界")
    assert server.body()["stdin"] == "世界"


@pytest.mark.parametrize(
    "words",
    [
        ["greet", "--args", "{"],
        ["greet", "--args", "[1]"],
        ["greet", "--args", "{}", "--", "x"],
        ["greet", "--file", "absent.txt"],
        ["greet", "--stdin", "absent.txt"],
        ["greet", "--timeout", "0"],
        ["Not A Name"],
    ],
)
def test_wrong_usage_exits_with_2_and_runs_nothing(skillbus: CommandLine, server: FakeServer, words: list[str]) -> None:
    assert skillbus("run", *words).exit_code == 2
    assert server.requests == []


def test_two_files_of_one_name_are_refused(skillbus: CommandLine, server: FakeServer, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(folder)

    result = skillbus("run", "greet", "--file", str(tmp_path / "a/x.csv"), "--file", str(tmp_path / "b/x.csv"))

    assert result.exit_code == 2
    assert server.requests == []


def test_a_run_that_failed_exits_with_1_whatever_its_own_code(skillbus: CommandLine, server: FakeServer) -> None:
    server.ran = run_reply(status="failed", exit_code=3, stdout="half\n", stderr="broken\n")

    result = skillbus("run", "greet")

    assert result.exit_code == 1
    assert result.stdout == "half\n"
    assert "broken" in result.stderr
    assert "exit code 3" in result.stderr


@pytest.mark.parametrize("status", ["ok", "timeout"])
def test_what_the_sandbox_says_about_a_run_is_passed_on(skillbus: CommandLine, server: FakeServer, status: str) -> None:
    server.ran = run_reply(status=status, exit_code=None, detail="two files were left out")

    assert "two files were left out" in skillbus("run", "greet").stderr


def test_json_has_the_exit_code_and_where_files_were_saved(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    server.ran = run_reply(status="failed", exit_code=3, artifacts=[artifact("a.txt", b"a")])

    result = skillbus("run", "greet", "--json", "--out", str(tmp_path))

    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (document["status"], document["exit_code"]) == ("failed", 3)
    assert document["artifacts"][0]["saved_to"] == str(tmp_path / "a.txt")
    assert "content" not in document["artifacts"][0]
    assert result.stderr == ""


@pytest.mark.parametrize("stdout", ['{"总计":1.10, "总计":12345678901234567890123}\n', "[1.0]", "\n\n", "no newline"])
def test_standard_output_is_printed_as_it_came(skillbus: CommandLine, server: FakeServer, stdout: str) -> None:
    server.ran = run_reply(stdout=stdout, result={"总计": 1.1})

    assert skillbus("run", "greet").stdout == stdout


def test_a_large_file_is_fetched_from_its_url(skillbus: CommandLine, server: FakeServer, tmp_path: Path) -> None:
    url = "/api/runs/r-1/artifacts/big.bin"
    server.files[url] = b"x" * 5000
    server.ran = run_reply(artifacts=[artifact("big.bin", b"x" * 5000, url=url)])

    assert skillbus("run", "greet", "--out", str(tmp_path), "--key", "k1").exit_code == 0
    assert (tmp_path / "big.bin").read_bytes() == b"x" * 5000
    assert server.requests[1].headers["Authorization"] == "Bearer k1"


@pytest.mark.parametrize("url", ["http://elsewhere.example/x", "//elsewhere.example/x"])
def test_the_key_is_not_carried_to_another_server(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path, url: str
) -> None:
    server.ran = run_reply(artifacts=[artifact("big.bin", b"x", url=url)])

    result = skillbus("run", "greet", "--out", str(tmp_path), "--key", "k1")

    assert result.exit_code == 1
    assert len(server.requests) == 1


def test_nothing_is_overwritten(skillbus: CommandLine, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "a-1.txt").symlink_to(tmp_path / "nowhere")
    server.ran = run_reply(artifacts=[artifact("a.txt", b"new"), artifact("deep/a.txt", b"newer")])

    result = skillbus("run", "greet", "--out", str(tmp_path))

    assert result.exit_code == 0
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert (tmp_path / "a-2.txt").read_text() == "new"
    assert (tmp_path / "a-3.txt").read_text() == "newer"
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_file_is_not_saved_and_the_others_are(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    server.ran = run_reply(artifacts=[artifact("bad.txt", b"x", sha256="0" * 64), artifact("good.txt", b"y")])

    result = skillbus("run", "greet", "--out", str(tmp_path))

    assert result.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["good.txt"]


def test_a_machine_that_cannot_isolate_is_told(skillbus: CommandLine, server: FakeServer) -> None:
    server.ran = problem(ErrorCode.SANDBOX_UNAVAILABLE, "unprivileged user namespaces are off")

    result = skillbus("run", "greet")

    assert result.exit_code == 1
    for said in ("cannot isolate", "sandbox_unavailable", "user namespaces are off"):
        assert said in result.stderr


def test_with_stream_output_is_printed_as_it_comes_and_not_again(skillbus: CommandLine, server: FakeServer) -> None:
    server.told = [("stdout", "first\n"), ("stderr", "aside\n"), ("stdout", "second\n")]
    server.ran = run_reply(stdout="first\nsecond\n", stderr="aside\n")

    result = skillbus("run", "greet", "--stream")

    assert (result.exit_code, result.stdout) == (0, "first\nsecond\n")
    assert result.stderr.startswith("aside\nok in ")
    assert server.requests[0].url.params["stream"] == "true"


def test_a_followed_run_that_failed_exits_with_1(skillbus: CommandLine, server: FakeServer) -> None:
    server.ran = run_reply(status="failed", exit_code=3)
    assert skillbus("run", "greet", "--stream").exit_code == 1


@pytest.mark.parametrize("followed", [[], ["--stream"]])
def test_a_run_that_is_refused_is_told_as_the_server_says(
    skillbus: CommandLine, server: FakeServer, followed: list[str]
) -> None:
    server.ran = problem(ErrorCode.SKILL_NOT_FOUND, "there is no greet")
    result = skillbus("run", "greet", *followed)
    assert result.exit_code == 1
    assert "there is no greet" in result.stderr


def test_a_followed_run_whose_reply_cannot_be_had_is_told(skillbus: CommandLine, server: FakeServer) -> None:
    server.told = [("stdout", "half")]
    server.breaks_off_with = problem(ErrorCode.NOT_FOUND, "the output is gone")
    result = skillbus("run", "greet", "--stream")
    assert (result.exit_code, result.stdout) == (1, "half")
    assert "the output is gone" in result.stderr


def test_following_and_one_document_exclude_each_other(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("run", "greet", "--stream", "--json").exit_code == 2
    assert server.requests == []


@pytest.mark.parametrize("followed", [[], ["--stream"]])
def test_ctrl_c_ends_the_run_and_shows_what_it_gave_so_far(
    skillbus: CommandLine, server: FakeServer, followed: list[str]
) -> None:
    server.ran = run_reply(status="cancelled", exit_code=None, stdout="so far\n")
    server.told = [("stdout", "so far\n")]
    server.on_run = lambda: signal.raise_signal(signal.SIGINT)

    result = skillbus("run", "greet", *followed)

    assert (result.exit_code, result.stdout) == (1, "so far\n")
    assert "cancelled" in result.stderr
    ended = [request.url.path for request in server.requests if request.method == "DELETE"]
    assert ended == [f"/api/runs/{server.body(0)['run_id']}"]


def test_on_a_terminal_a_long_result_in_json_is_cut_and_other_output_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Console(force_terminal=True, width=80)
    output = CommandOutput(as_json=False, out=terminal, err=terminal)
    text = json.dumps(list(range(100)), indent=1)
    for result, more in ((list(range(100)), True), (None, False)):
        reply = RunReply.model_validate(run_reply(stdout=text, result=result))
        print_output(output, reply)
        shown = capsys.readouterr().out
        assert ("72 more lines of JSON" in shown) is more
        assert ("99" in shown) is not more
