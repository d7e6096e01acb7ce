"""Runs an example skill's script as its SKILL.md says, with the plain interpreter and a clean environment."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
SKILLS = EXAMPLES / "skills"
DATA = EXAMPLES / "data"
NAMES = sorted(folder.name for folder in SKILLS.iterdir())
TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    stdout: str
    stderr: str
    artifacts: dict[str, bytes]

    def value(self, *path: str | int) -> object:
        """The part of the JSON result at `path`."""
        assert self.status == 0, self.stderr
        found: object = json.loads(self.stdout)
        for step in path:
            assert isinstance(found, dict | list)
            found = found[step]  # type: ignore[index]  # the step fits the container, or the test fails
        return found


@dataclass(frozen=True, slots=True)
class SkillRunner:
    """`folder` holds the input and output folders of one test."""

    folder: Path

    def give(self, name: str, content: bytes) -> None:
        (self.folder / "in" / name).write_bytes(content)

    def give_data(self, name: str) -> None:
        shutil.copy(DATA / name, self.folder / "in" / name)

    def run(self, skill: str, args: dict[str, object]) -> Outcome:
        """With `argv` skills each argument becomes `--key value`."""
        if metadata_of(skill)["skillbus-args"] == "argv":
            return self.run_raw(skill, b"", [word for key, value in args.items() for word in (f"--{key}", str(value))])
        return self.run_raw(skill, json.dumps(args).encode())

    def run_raw(self, skill: str, stdin: bytes, argv: list[str] | None = None) -> Outcome:
        script = SKILLS / skill / metadata_of(skill)["skillbus-entry"]
        done = subprocess.run(
            [*interpreter(script), str(script), *(argv or [])],
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "SKILLBUS_IN": f"{self.folder}/in", "SKILLBUS_OUT": f"{self.folder}/out"},
        )
        kept = {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}
        return Outcome(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), kept
        )


def interpreter(script: Path) -> list[str]:
    if script.suffix == ".py":
        return [sys.executable, "-B", "-S"]
    program = {".cjs": "node", ".sh": "bash"}[script.suffix]
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return [found]


def frontmatter_of(skill: str) -> dict[str, object]:
    text = (SKILLS / skill / "SKILL.md").read_text(encoding="utf-8")
    loaded = yaml.safe_load(text.split("---\n", 2)[1])
    assert isinstance(loaded, dict)
    return loaded


def metadata_of(skill: str) -> dict[str, str]:
    metadata = frontmatter_of(skill)["metadata"]
    assert isinstance(metadata, dict)
    return metadata


def input_schema_of(skill: str) -> dict[str, object]:
    declared = metadata_of(skill)["skillbus-input-schema"]
    text = declared if declared.startswith("{") else (SKILLS / skill / declared).read_text(encoding="utf-8")
    loaded = json.loads(text)
    assert isinstance(loaded, dict)
    return loaded
