"""What holds for every example skill: the Agent Skills format, runnable entry points, and clear refusals."""

import ast
import hashlib
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from .runner import NAMES, SKILLS, SkillRunner, frontmatter_of, input_schema_of, metadata_of

SPEC_FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
ENTRY_KEYS = {"skillbus-entry", "skillbus-args", "skillbus-input-schema"}

# For each skill, arguments it must accept as they are, without any file.
SAMPLES: dict[str, dict[str, object]] = {
    "calculate": {"expression": "1 + 1"},
    "csv-summary": {"text": "a,b\n1,x\n"},
    "date-convert": {"date": "2026-09-30"},
    "git-commit": {"diff": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"},
    "json-format": {"text": "[1]"},
    "markdown-toc": {"text": "# a\n## b\n"},
    "password-strength": {"password": "hunter2"},
    "regex-test": {"pattern": "a", "text": "aa"},
    "text-diff": {"old": "a", "new": "b"},
    "unit-convert": {"value": 1, "from": "km", "to": "m"},
    "word-count": {"text": "字 word"},
}
JSON_SKILLS = [name for name in NAMES if metadata_of(name)["skillbus-args"] == "stdin-json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_keeps_the_agent_skills_rules(name: str) -> None:
    front = frontmatter_of(name)
    assert front["name"] == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert len(name) <= 64
    assert 1 <= len(str(front["description"])) <= 1024
    assert 1 <= len(str(front["compatibility"])) <= 500
    assert set(front) <= SPEC_FIELDS


@pytest.mark.parametrize("name", NAMES)
def test_a_skills_metadata_is_all_text_and_names_a_version_tags_and_an_entry_point(name: str) -> None:
    metadata = metadata_of(name)
    assert all(isinstance(value, str) for value in metadata.values())
    assert set(metadata) == {"version", "tags"} | ENTRY_KEYS
    assert re.fullmatch(r"\d+\.\d+\.\d+", metadata["version"])
    assert all(tag.strip() for tag in metadata["tags"].split(","))
    assert (SKILLS / name / metadata["skillbus-entry"]).is_file()
    assert metadata["skillbus-args"] in {"stdin-json", "argv"}


@pytest.mark.parametrize("name", NAMES)
def test_a_skills_input_schema_is_a_json_schema_that_refuses_unknown_arguments(name: str) -> None:
    schema = input_schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(SAMPLES.get(name, {}))
    assert not validator.is_valid({**SAMPLES.get(name, {}), "no_such_argument": 1})


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_skill_answers_its_sample_with_json(name: str, skills: SkillRunner) -> None:
    outcome = skills.run(name, SAMPLES[name])
    assert outcome.status == 0, outcome.stderr
    assert isinstance(json.loads(outcome.stdout), dict)
    assert outcome.stderr == ""


@pytest.mark.parametrize("stdin", [b"\xff{", b"[]"], ids=["cut", "list"])
@pytest.mark.parametrize("name", JSON_SKILLS)
def test_a_skill_refuses_arguments_that_are_no_json_object(name: str, stdin: bytes, skills: SkillRunner) -> None:
    outcome = skills.run_raw(name, stdin)
    assert outcome.status == 2
    assert outcome.stderr.startswith("error: ")
    assert outcome.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_without_input_says_what_is_missing(name: str, skills: SkillRunner) -> None:
    outcome = skills.run_raw(name, b"")
    if name == "file-read":  # with no file named it lists what there is: nothing
        assert outcome.value("files") == []
        return
    assert outcome.status == 2
    assert outcome.stderr.startswith("error: ")


@pytest.mark.parametrize("name", [name for name in NAMES if "file" in str(input_schema_of(name)["properties"])])
@pytest.mark.parametrize("file", ["../secret.txt", "absent.txt", "link.txt"])
def test_a_skill_reads_no_file_outside_its_input_folder(name: str, file: str, skills: SkillRunner) -> None:
    (skills.folder / "secret.txt").write_text("secret\n")
    (skills.folder / "in" / "link.txt").symlink_to(skills.folder / "secret.txt")
    extra: dict[str, object] = {"pattern": "s"} if name == "regex-test" else {}
    args: dict[str, object] = {"old_file": file, "new": ""} if name == "text-diff" else {"file": file}
    outcome = skills.run(name, args | extra)
    assert outcome.status == 2
    assert "secret" not in outcome.stdout


@pytest.mark.parametrize("name", ["file-read", "word-count", "file-checksum"])
@pytest.mark.parametrize("file", ["/etc/hostname", "x" * 5000, "."], ids=["absolute", "too long", "the folder"])
def test_a_skill_in_each_language_refuses_odd_file_names(name: str, file: str, skills: SkillRunner) -> None:
    outcome = skills.run(name, {"file": file})
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error: ")


@pytest.mark.parametrize("shared", ["skillio.py", "skillio.cjs", "columns.py"])
def test_copies_of_a_shared_file_are_the_same(shared: str) -> None:
    copies = list(SKILLS.glob(f"*/scripts/{shared}"))
    assert len(copies) > 1
    assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in copies}) == 1


def test_the_overview_names_every_skill() -> None:
    overview = (SKILLS.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in overview] == []


def test_skills_in_python_use_the_standard_library_alone() -> None:
    for script in SKILLS.rglob("*.py"):
        siblings = {path.stem for path in script.parent.glob("*.py")}
        tree = ast.parse(script.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        foreign = {name.split(".")[0] for name in names} - siblings - sys.stdlib_module_names
        assert foreign == set(), Path(script).name
