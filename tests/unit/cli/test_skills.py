from pathlib import Path

import pytest

from .conftest import CommandLine
from .fake_server import FakeServer, skill_record
from .fake_tools import WHEN, FakeTools

WARNED = {
    "valid": False,
    "installable": True,
    "name": "greet",
    "warnings": [{"code": "no_version", "message": "has no version", "where": "SKILL.md"}],
    "scan": {
        "files": 2,
        "unpacked_bytes": 100,
        "scripts": ["scripts/main.py"],
        "network": [{"file": "scripts/main.py", "line": 3, "what": "requests"}],
        "executables": ["bin/tool"],
    },
}


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools()


def test_a_check_shows_what_was_found_and_installs_nothing(
    skillbus: CommandLine, tools: FakeTools, skill_folder: Path
) -> None:
    tools.answers["check"] = WARNED
    result = skillbus("skills", "check", str(skill_folder), externals=tools.externals())
    assert result.exit_code == 0, result.output
    for said in ("can be installed", "has no version", "scripts/main.py:3", "requests", "bin/tool"):
        assert said in result.stdout
    assert [path for _, path, _ in tools.requests] == ["/api/skills/check"]
    assert skillbus("skills", "check", str(skill_folder), "--strict", externals=tools.externals()).exit_code == 1


def test_a_check_of_what_cannot_be_installed_exits_with_1(
    skillbus: CommandLine, tools: FakeTools, skill_zip: Path
) -> None:
    error = {"code": "no_description", "message": "has no description"}
    tools.answers["check"] = {"valid": False, "installable": False, "errors": [error]}
    result = skillbus("skills", "check", str(skill_zip), externals=tools.externals())
    assert result.exit_code == 1
    assert "has no description" in result.stdout


def test_a_history_is_a_table_and_can_be_gone_back_to(skillbus: CommandLine, tools: FakeTools) -> None:
    version = {"digest": "0" * 64, "version": "1.1", "description": "问候", "installed_at": WHEN, "reason": "updated"}
    tools.answers["history"] = {"name": "greet", "versions": [version | {"content_digest": "c" * 64}]}
    shown = skillbus("skills", "history", "greet", externals=tools.externals()).stdout
    for said in ("c" * 12, "1.1", "updated", "问候"):
        assert said in shown
    assert skillbus("skills", "rollback", "greet", externals=tools.externals()).exit_code == 0
    assert tools.body() == {}
    assert skillbus("skills", "rollback", "greet", "--to", "c" * 12, externals=tools.externals()).exit_code == 0
    assert tools.body() == {"content_digest": "c" * 64}
    assert skillbus("skills", "rollback", "greet", "--to", "d" * 64, externals=tools.externals()).exit_code == 0
    assert tools.body() == {"content_digest": "d" * 64}


def test_a_beginning_that_two_packages_have_is_wrong_usage(skillbus: CommandLine, tools: FakeTools) -> None:
    version = {"digest": "0" * 64, "description": "问候", "installed_at": WHEN, "reason": "updated"}
    both = [version | {"content_digest": "c" * 63 + end} for end in "12"]
    tools.answers["history"] = {"name": "greet", "versions": both}
    assert skillbus("skills", "rollback", "greet", "--to", "cc", externals=tools.externals()).exit_code == 2
    assert [method for method, _, _ in tools.requests] == ["GET"]


@pytest.mark.parametrize("step", ["pin", "unpin", "enable", "disable"])
def test_a_skill_is_pinned_and_disabled_by_name(skillbus: CommandLine, tools: FakeTools, step: str) -> None:
    result = skillbus("skills", step, "greet", "--project", "p", externals=tools.externals())
    assert result.exit_code == 0, result.output
    assert tools.requests[0][:2] == ("POST", f"/api/skills/greet/{step}")
    assert tools.queries[0]["project"] == "p"
    assert ("disabled" if step == "disable" else "enabled") in result.stdout
    assert skillbus("skills", step, "../etc", externals=tools.externals()).exit_code == 2


def test_skills_are_listed_by_filters_and_a_disabled_one_says_so(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills = {"greet": skill_record("greet", enabled=False)}
    shown = skillbus("skills", "list", "--tag", "a", "--text", "问", "--disabled").stdout
    assert "disabled" in shown
    asked = server.requests[0].url.params
    assert (asked["tag"], asked["text"], asked["enabled"]) == ("a", "问", "false")


def test_the_network_of_a_skill_is_shown_and_approved_place_by_place(skillbus: CommandLine, tools: FakeTools) -> None:
    wanting = skill_record("greet", network=["a.example:443", "b.example:80"], network_approved=["a.example:443"])
    tools.answers["greet"] = wanting
    tools.answers["network"] = wanting | {"network_approved": ["b.example:80"]}
    shown = skillbus("skills", "network", "greet", externals=tools.externals())
    assert [line.split() for line in shown.stdout.splitlines()[-2:]] == [
        ["a.example:443", "approved"],
        ["b.example:80", "waits"],
    ]
    assert [method for method, _, _ in tools.requests] == ["GET"]
    options = ("--approve", "B.example.:80", "--withdraw", "a.example:443")
    changed = skillbus("skills", "network", "greet", *options, "--project", "p", externals=tools.externals())
    assert changed.exit_code == 0, changed.output
    assert tools.requests[-1][:2] == ("PUT", "/api/skills/greet/network")
    assert tools.body() == {"approved": ["b.example:80"]}
    assert tools.queries[-1]["project"] == "p"
    assert changed.stdout.splitlines()[-1].split() == ["b.example:80", "approved"]


def test_what_is_no_place_is_wrong_usage(skillbus: CommandLine, tools: FakeTools) -> None:
    tools.answers["greet"] = skill_record("greet")
    assert skillbus("skills", "network", "greet", "--approve", "*:443", externals=tools.externals()).exit_code == 2
    assert tools.requests == []
    shown = skillbus("skills", "network", "greet", externals=tools.externals())
    assert shown.stdout.strip() == "greet requests no network"


def test_a_skill_is_shown_with_what_it_has(skillbus: CommandLine, server: FakeServer) -> None:
    server.skills["greet"] = skill_record("greet", description="says hello")
    shown = skillbus("skills", "show", "greet")
    assert (shown.exit_code, server.requests[-1].url.path) == (0, "/api/skills/greet")
    assert "says hello" in shown.stdout
    assert skillbus("skills", "show", "nobody").exit_code == 1


def test_a_new_skill_does_not_change_an_existing_folder(skillbus: CommandLine, tmp_path: Path) -> None:
    made = skillbus("skills", "new", "greet", "--lang", "bash", "--in", str(tmp_path))
    assert made.exit_code == 0, made.output
    assert "skillbus install" in made.stdout
    before = (tmp_path / "greet" / "SKILL.md").read_text()
    assert "name: greet\n" in before
    again = skillbus("skills", "new", "greet", "--in", str(tmp_path))
    assert again.exit_code == 1
    assert "greet" in again.stderr
    assert (tmp_path / "greet" / "SKILL.md").read_text() == before
    assert skillbus("skills", "new", "No Name", "--in", str(tmp_path)).exit_code == 2
