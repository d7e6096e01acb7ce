import json
from pathlib import Path

from skillbus.contracts.errors import ErrorCode

from .conftest import CommandLine
from .fake_server import FakeServer, Json, problem


def test_a_folder_is_packed_and_a_zip_is_sent_as_it_is(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path, skill_zip: Path
) -> None:
    result = skillbus("install", str(skill_folder), str(skill_zip))

    assert result.exit_code == 0, result.output
    assert set(server.skills) == {"greet", "packed"}
    assert skill_zip.read_bytes() in server.requests[1].content
    assert "installed" in result.stdout
    assert "没有版本" in result.stdout


def test_the_same_folder_gives_the_same_bytes(skillbus: CommandLine, server: FakeServer, skill_folder: Path) -> None:
    for _ in range(2):
        assert skillbus("install", str(skill_folder)).exit_code == 0

    first, second = (request.content.split(b"\r\n\r\n", 1)[1].rsplit(b"\r\n--", 2)[0] for request in server.requests)
    assert first == second


def test_what_git_and_the_indexer_leave_in_a_folder_is_not_sent(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path
) -> None:
    (skill_folder / ".git").mkdir()
    (skill_folder / ".git" / "config").write_text("[core]")
    (skill_folder / ".vectorized").write_text("{}")

    assert skillbus("install", str(skill_folder)).exit_code == 0
    assert b".git" not in server.requests[0].content
    assert b".vectorized" not in server.requests[0].content


def test_a_refused_package_does_not_stop_the_others_and_is_told_by_the_exit_code(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path, skill_zip: Path
) -> None:
    finding = {"code": "name_invalid", "message": "must be lower case", "where": "SKILL.md: name"}
    server.rejects["packed"] = problem(ErrorCode.SKILL_REJECTED, "The package has errors.", {"errors": [finding]})

    result = skillbus("install", str(skill_zip), str(skill_folder))

    assert result.exit_code == 1
    assert set(server.skills) == {"greet"}
    for said in (
        "not a valid skill",
        "skill_rejected",
        "The package has errors.",
        "SKILL.md: name: must be lower case",
    ):
        assert said in result.stderr


def test_json_tells_the_outcome_of_each_path(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path, skill_zip: Path
) -> None:
    server.rejects["packed"] = problem(ErrorCode.SKILL_REJECTED, "The package has errors.")

    result = skillbus("install", "--json", str(skill_zip), str(skill_folder))

    refused, installed = json.loads(result.stdout)["results"]
    assert result.exit_code == 1
    assert result.stderr == ""
    assert (refused["path"], refused["outcome"], refused["error"]["code"]) == (
        str(skill_zip),
        "failed",
        "skill_rejected",
    )
    assert (installed["name"], installed["outcome"], installed["warnings"][0]["code"]) == (
        "greet",
        "installed",
        "no_version",
    )


def test_a_folder_of_skills_installs_each_of_them(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path
) -> None:
    (skill_folder.parent / "notes").mkdir()
    result = skillbus("install", "--json", str(skill_folder.parent))
    assert [it["name"] for it in json.loads(result.stdout)["results"]] == ["greet"]
    assert list(server.skills) == ["greet"]


def test_import_is_the_same_for_folders_at_any_depth_and_links_to_skills(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path, tmp_path: Path
) -> None:
    top = tmp_path / "claude"
    deep = top / "plugins" / "writing" / "skills" / "edit"
    for folder in (deep, deep / "inside", top / ".git" / "hidden", top / "node_modules" / "package"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes((skill_folder / "SKILL.md").read_bytes())
    (top / "greet").symlink_to(skill_folder)
    (top / "loop").symlink_to(top)
    result = skillbus("skills", "import", str(top))
    assert result.exit_code == 0, result.output
    assert set(server.skills) == {"greet", "edit"}
    assert "2 skills: 2 installed" in result.stdout


def test_two_folders_with_one_name_are_pointed_out(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copies" / "greet"
    copy.mkdir(parents=True)
    (copy / "SKILL.md").write_bytes((skill_folder / "SKILL.md").read_bytes())
    result = skillbus("install", str(skill_folder), str(copy))
    assert "2 packages have this name" in result.stdout


def test_a_folder_without_skills_is_refused_before_anything_is_sent(
    skillbus: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    result = skillbus("install", "--json", str(tmp_path))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["results"][0]["error"]["code"] == "not_a_skill"
    assert server.requests == []


def test_a_rejection_says_each_thing_once(skillbus: CommandLine, server: FakeServer, skill_zip: Path) -> None:
    name, description = "the name 'Bad Name' breaks the rule", "`description` is missing"
    details: Json = {
        "reason": "bad_name",
        "errors": [
            {"code": "bad_name", "message": name, "where": "SKILL.md"},
            {"code": "bad_description", "message": description, "where": "SKILL.md"},
        ],
        "warnings": [{"code": "nested", "message": "the skill lies deeper", "where": "x/SKILL.md"}],
    }
    detail = f"bad_name: {name}; bad_description: {description}"
    server.rejects["packed"] = problem(ErrorCode.SKILL_REJECTED, detail, details)

    assert skillbus("install", str(skill_zip)).stderr.splitlines()[1:-1] == [
        "Error: The package is not a valid skill (skill_rejected, HTTP 422)",
        "  SKILL.md: the name 'Bad Name' breaks the rule (bad_name)",
        "  SKILL.md: `description` is missing (bad_description)",
        "  warning: x/SKILL.md: the skill lies deeper (nested)",
    ]


def test_a_folder_with_a_link_out_of_it_is_refused(
    skillbus: CommandLine, server: FakeServer, skill_folder: Path
) -> None:
    (skill_folder / "secret").symlink_to("/etc/hostname")

    result = skillbus("install", str(skill_folder))

    assert result.exit_code == 1
    assert "secret" in result.stderr
    assert server.requests == []


def test_a_path_that_is_not_there_is_wrong_usage(skillbus: CommandLine, tmp_path: Path) -> None:
    assert skillbus("install", str(tmp_path / "absent")).exit_code == 2


def test_the_project_travels_with_the_package(skillbus: CommandLine, server: FakeServer, skill_folder: Path) -> None:
    assert skillbus("install", "--project", "acme", str(skill_folder)).exit_code == 0
    assert b'name="project"\r\n\r\nacme' in server.requests[0].content
