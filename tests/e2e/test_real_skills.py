"""Skills of others: installed, found by their own descriptions, run, and refused where they are broken."""

import json
from pathlib import Path

import pytest
import pytest_asyncio

from skillbus.common.bus.objects import open_object_store
from skillbus.contracts.resources import PACKAGES

from .conftest import ARCHIVES, Json, System, names, problem

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not ARCHIVES.is_dir(), reason="the folder shared/data/skills is not beside this checkout"),
]

_NAMES = sorted(path.stem for path in ARCHIVES.glob("*.zip"))
_RUNS = (ARCHIVES / "runs.jsonl").read_text("utf-8").splitlines() if ARCHIVES.is_dir() else []
_MALFORMED: list[dict[str, str]] = (
    json.loads((ARCHIVES / "malformed" / "expected.json").read_text("utf-8")) if ARCHIVES.is_dir() else []
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(system: System) -> dict[str, Json]:
    """The answers to the eight uploads, by name."""
    answers = {}
    for name in _NAMES:
        answer = await system.install((ARCHIVES / f"{name}.zip").read_bytes())
        assert answer.status_code == 201, answer.text
        answers[name] = answer.json()
    return answers


@pytest.mark.spec("tool-system.md § Claude Code Skills 格式")
@pytest.mark.parametrize("name", _NAMES)
async def test_an_archive_is_installed_indexed_and_on_disk(
    system: System, installed: dict[str, Json], name: str
) -> None:
    """tool-system.md § SkillManager 安装"""
    answer = installed[name]
    assert (answer["name"], answer["outcome"], answer["indexed"]) == (name, "installed", True)
    assert (await system.http.get(f"/api/skills/{name}")).json()["digest"] == answer["digest"]
    assert (system.data / "skills" / name / "SKILL.md").is_file()
    assert (system.data / "skills" / name / ".vectorized").is_file()


@pytest.mark.parametrize("name", _NAMES)
async def test_its_own_description_finds_a_skill_first(system: System, installed: dict[str, Json], name: str) -> None:
    """skill-vector-retrieval.md § 相似度计算验证"""
    hits = await system.hits(str(installed[name]["description"]), limit=3)
    assert hits[0]["name"] == name
    assert float(str(hits[0]["score"])) > 0.95
    assert float(str(hits[0]["score"])) > float(str(hits[1]["score"]))


@pytest.mark.parametrize("line", _RUNS, ids=[f"run-{number}" for number, _ in enumerate(_RUNS, start=1)])
async def test_a_script_gives_what_was_recorded_of_it(system: System, installed: dict[str, Json], line: str) -> None:
    """tool-system.md § SkillsSandboxExecutor"""
    recorded = json.loads(line)
    answer = await system.run(
        recorded["skill"], action=recorded["script"], argv=recorded["argv"], stdin=recorded["stdin"]
    )
    assert answer.status_code == 200, answer.text
    ran = answer.json()
    assert ran["exit_code"] == recorded["expect_exit"]
    assert ran["status"] == ("ok" if recorded["expect_exit"] == 0 else "failed")
    assert recorded["expect_output_contains"] in ran["stdout"] + ran["stderr"]


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _outside(system: System) -> dict[str, tuple[int, int]]:
    """Everything beside the data directory, and what lies in it beside the parts that a service owns."""
    own = ("nats", "vectors", "skills", ".staging", "sandbox")
    parent = system.data.parents[1]
    paths = [path for path in parent.rglob("*") if not _is_within(path, system.data, own)]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.is_file()}


def _is_within(path: Path, data: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(data / folder) for folder in folders)


@pytest.mark.parametrize("case", _MALFORMED, ids=[case["file"] for case in _MALFORMED])
async def test_a_malformed_archive_gets_the_outcome_that_is_due_and_writes_nothing_elsewhere(
    system: System, installed: dict[str, Json], case: dict[str, str]
) -> None:
    """tool-system.md § SkillManager 安装: 验证结构"""
    for canary in (system.data.parents[1] / "evil.txt", system.data.parent / "evil.txt", system.data / "evil.txt"):
        canary.write_text("canary")
    outside, skills_before, counts_before = _outside(system), _files(system.data / "skills"), await system.counts()
    packages = await open_object_store(system.standalone.bus, PACKAGES)
    packages_before = await packages.names()

    answer = await system.install((ARCHIVES / "malformed" / case["file"]).read_bytes())

    body = answer.json()
    if case["expect"] == "reject":
        assert problem(answer) == (422, "skill_rejected")
        assert body["details"]["reason"] == case["code"].lower()
        assert [error["code"] for error in body["details"]["errors"]] == [case["code"].lower()]
        assert all(error["message"] for error in body["details"]["errors"])
    else:
        assert answer.status_code == 201, answer.text
        expected = [] if case["code"] == "OK" else [case["code"].lower()]
        assert [warning["code"] for warning in body["warnings"]] == expected
        assert body["name"] != "outer"
        await system.http.delete(f"/api/skills/{body['name']}")
        assert await system.trace_of(body["name"]) == []
    assert list((system.data / ".staging").iterdir()) == []
    assert _files(system.data / "skills") == skills_before
    assert await packages.names() == packages_before
    assert await system.counts() == counts_before
    assert _outside(system) == outside


@pytest.mark.parametrize(
    ("file", "where"),
    [
        ("zip-slip.zip", "../../evil.txt"),
        ("symlink-out.zip", "symlink-out/link"),
        ("zip-bomb.zip", "zip-bomb/zeros.bin"),
        ("duplicate-entries.zip", "dup/SKILL.md"),
        ("bad-yaml.zip", "SKILL.md"),
    ],
)
async def test_a_refusal_says_where_it_is_wrong(system: System, file: str, where: str) -> None:
    answer = await system.install((ARCHIVES / "malformed" / file).read_bytes())
    assert [error["where"] for error in answer.json()["details"]["errors"]] == [where]


async def test_what_was_installed_before_is_found_after_the_malformed_ones(
    system: System, installed: dict[str, Json]
) -> None:
    hits = await system.hits("accessibility contrast of a web page", limit=3)
    assert "a11y-audit" in names(hits)
    assert await system.counts() == (len(installed), len(installed))
    assert {folder.name for folder in (system.data / "skills").iterdir()} == set(installed)
