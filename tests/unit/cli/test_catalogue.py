import json

from .conftest import CommandLine
from .fake_server import FakeServer, skill_record


def test_list_follows_the_pages(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {name: skill_record(name) for name in ("a", "b", "c", "d", "e")}
    server.page_size = 2

    result = skillbus("skills", "list", "--json")

    assert [skill["name"] for skill in json.loads(result.stdout)["skills"]] == ["a", "b", "c", "d", "e"]
    assert len(server.requests) == 3


def test_list_shows_name_version_and_whether_it_is_indexed(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {"greet": skill_record("greet", indexed=False)}
    server.polls_until_indexed = 9

    shown = skillbus("skills", "list").stdout

    for cell in ("greet", "1.0.0", "waiting", "2.0 kB", "1 skill"):
        assert cell in shown


def test_remove_goes_on_after_a_failure_and_exits_with_1(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {"b": skill_record("b")}

    result = skillbus("skills", "remove", "--yes", "a", "b")

    assert result.exit_code == 1
    assert server.skills == {}
    assert "skill_not_found" in result.stderr
    assert "b: removed" in result.stdout


def test_remove_in_json_gives_each_outcome(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {"b": skill_record("b")}

    result = skillbus("skills", "remove", "--yes", "--json", "a", "b")

    assert [item["outcome"] for item in json.loads(result.stdout)["results"]] == ["failed", "removed"]


def test_remove_without_yes_asks_and_where_nobody_can_answer_it_is_wrong_usage(
    skillbus: CommandLine, server: FakeServer
) -> None:
    server.skills = {"b": skill_record("b")}

    assert skillbus("skills", "remove", "b").exit_code == 2
    assert "b" in server.skills


def test_a_name_that_no_skill_can_have_is_wrong_usage(skillbus: CommandLine, server: FakeServer) -> None:
    assert skillbus("skills", "remove", "--yes", "../etc").exit_code == 2
    assert server.requests == []


def test_status_shows_services_and_index(skillbus: CommandLine, server: FakeServer) -> None:
    result = skillbus("status")

    assert result.exit_code == 0
    for cell in ("nats", "collection", "tools_x"):
        assert cell in result.stdout


def test_status_of_a_server_that_is_not_ready_exits_with_1(skillbus: CommandLine, server: FakeServer) -> None:
    server.ready = False

    result = skillbus("status", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["ready"] is False


def test_status_of_a_server_that_runs_nothing_is_ready_but(skillbus: CommandLine, server: FakeServer) -> None:
    server.isolates = False

    result = skillbus("status")

    assert result.exit_code == 0
    verdict = "ready, but runs are refused"
    assert result.stdout.splitlines()[-1] == verdict


def test_status_says_that_its_counts_are_of_all_projects(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {"b": skill_record("b")}

    lines = skillbus("status").stdout.splitlines()

    assert any(line.startswith("skills, all projects ") and line.split()[-1] == "1" for line in lines)
    assert lines[-1] == "ready"


def test_status_of_a_server_without_an_agent_says_what_does_not_work(skillbus: CommandLine, server: FakeServer) -> None:
    server.calls_tools = False

    result = skillbus("status")

    assert result.exit_code == 0
    verdict = "ready, but MCP and builtin tools cannot be called"
    assert result.stdout.splitlines()[-1] == verdict


def test_status_of_a_server_without_a_learner_says_what_does_not_work(
    skillbus: CommandLine, server: FakeServer
) -> None:
    server.keeps_knowledge = False

    result = skillbus("status")

    assert result.exit_code == 0
    verdict = "ready, but knowledge can be neither written nor found"
    assert result.stdout.splitlines()[-1] == verdict


def test_status_counts_tools_beside_skills(skillbus: CommandLine) -> None:
    assert any(
        line.startswith("tools besides skills, all projects ") for line in skillbus("status").stdout.splitlines()
    )
