"""The examples, which come with this repository: skills are installed, found by their own descriptions, and run.

Agents find them, and a model calls them.
"""

import asyncio
import base64
import os
import sys
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import JsonValue

from skillbus.cli.skills.template import SkillLanguage, write_template
from skillbus.common.archive import pack_directory

from .conftest import EXAMPLES, ROOT, Json, System, problem
from .scripted_model import ScriptedModel, serve_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

_NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/SKILL.md"))
_LOG = "2026-01-01 ERROR disk sda full\n2026-01-02 INFO fine\n2026-01-03 ERROR disk sdb full\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(system: System) -> dict[str, Json]:
    """The answers to the uploads, by name."""
    answers = {}
    for name in _NAMES:
        answer = await system.install(_packed(EXAMPLES / name))
        assert answer.status_code == 201, answer.text
        answers[name] = answer.json()
    return answers


def _packed(folder: Path) -> bytes:
    return pack_directory(folder)


def _file(text: str) -> dict[str, JsonValue]:
    return {"input.txt": base64.b64encode(text.encode()).decode()}


@pytest.mark.spec("tool-system.md § Claude Code Skills 格式")
@pytest.mark.parametrize("name", _NAMES)
async def test_an_example_is_installed_without_warnings_and_indexed(installed: dict[str, Json], name: str) -> None:
    """tool-system.md § SkillManager 安装"""
    answer = installed[name]
    assert (answer["name"], answer["outcome"], answer["indexed"]) == (name, "installed", True)
    assert answer["warnings"] == []
    assert answer["entry_points"]


@pytest.mark.parametrize("name", _NAMES)
async def test_its_own_description_finds_an_example_first(
    system: System, installed: dict[str, Json], name: str
) -> None:
    """skill-vector-retrieval.md § 相似度计算验证"""
    hits = await system.hits(str(installed[name]["description"]), limit=3)
    assert hits[0]["name"] == name
    assert float(str(hits[0]["score"])) > 0.95


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("帮我提交代码", "git-commit"),
        ("分析Excel文件", "excel-analysis"),
        ("算一下 (3+4)*2 等于多少", "calculate"),
        ("how many kilometres are 26 miles", "unit-convert"),
        ("what changed between these two texts", "text-diff"),
        ("这个密码安全吗", "password-strength"),
    ],
)
async def test_a_request_finds_the_example_that_fits(
    system: System, installed: dict[str, Json], query: str, name: str
) -> None:
    """skill-vector-retrieval.md § 检索相关Skills"""
    assert (await system.hits(query, limit=1))[0]["name"] == name


@pytest.mark.spec("tool-system.md § SkillsSandboxExecutor: 进程隔离")
@pytest.mark.spec("tool-system.md § 风险2 手动指定Skills + 置信度")
@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("calculate", {"args": {"expression": "(3+4)*2"}}, "14"),
        ("word-count", {"args": {"text": "你好 world"}}, "world"),
        ("log-errors", {"args": {"level": "error"}, "files": _file(_LOG)}, "disk"),
        ("file-checksum", {"args": {"algorithm": "md5"}, "files": _file("hello")}, "5d41402abc4b2a76b9719d911017c592"),
        ("file-read", {"args": {"start_line": 2, "max_lines": 1}, "files": _file(_LOG)}, "INFO fine"),
    ],
    ids=["python", "node", "bash", "bash-argv", "python-file"],
)
async def test_an_example_runs_in_the_sandbox(
    system: System, installed: dict[str, Json], name: str, body: Json, said: str
) -> None:
    """tool-system.md § SkillsSandboxExecutor"""
    answer = await system.run(name, **body)
    assert answer.status_code == 200, answer.text
    ran = answer.json()
    assert (ran["status"], ran["exit_code"]) == ("ok", 0), ran["stderr"]
    assert said in ran["stdout"]


@pytest.mark.spec("skill-vector-retrieval.md § Skills内容未变更")
async def test_an_example_installed_twice_is_skipped_and_stays_one(system: System, installed: dict[str, Json]) -> None:
    """skill-vector-retrieval.md § Skills内容未变更"""
    before = await system.counts()
    again = await system.install(_packed(EXAMPLES / "calculate"))
    assert (again.status_code, again.json()["outcome"]) == (201, "unchanged")
    assert await system.counts() == before == (len(_NAMES), len(_NAMES))


async def test_the_list_shows_every_example_by_name(system: System, installed: dict[str, Json]) -> None:
    """tool-system.md § SkillManager 列表"""
    listed = (await system.http.get("/api/skills", params={"limit": 100})).json()
    assert [skill["name"] for skill in listed["skills"]] == _NAMES
    assert listed["total"] == len(_NAMES)


@pytest.mark.parametrize("language", SkillLanguage)
async def test_a_skill_made_from_the_template_is_valid_and_runs(
    system: System, language: SkillLanguage, tmp_path: Path
) -> None:
    folder = tmp_path / f"new-{language}"
    write_template(folder, language)
    package = {"package": ("package.zip", _packed(folder))}
    checked = (await system.http.post("/api/skills/check", files=package)).json()
    assert (checked["valid"], checked["installable"], checked["warnings"]) == (True, True, [])
    assert (await system.install(_packed(folder))).status_code == 201
    ran = (await system.run(folder.name, args={"name": "林"})).json()
    refused = await system.run(folder.name, args={})
    assert (await system.http.delete(f"/api/skills/{folder.name}")).status_code == 200
    assert (ran["status"], "Hello, 林!" in ran["stdout"]) == ("ok", True), ran["stderr"]
    assert problem(refused) == (422, "invalid_arguments")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        ("openai_agent", "skill__calculate"),
        ("anthropic_agent", "skill__calculate"),
        ("pydantic_ai_agent", "builtin__calculate"),
        ("httpx_agent", "skill__calculate"),
    ],
)
async def test_an_example_agent_finds_a_tool_and_answers_with_its_result(
    system: System, installed: dict[str, Json], agent: str, tool: str
) -> None:
    """The model is scripted; its server, the agent and skillbus are real."""
    with serve_model(ScriptedModel(tool, {"expression": "(4 + 5) * 3"})) as model:
        environment = {
            "SKILLBUS_URL": system.standalone.http_url,
            "SKILLBUS_API_KEY": system.http.headers["Authorization"].removeprefix("Bearer "),
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "a-test",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "a-test",
        }
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "examples" / "agents" / f"{agent}.py"),
            "what is (4 + 5) * 3?",
            env=os.environ | environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(110):
            printed = (await program.communicate())[0].decode()
    assert program.returncode == 0, printed[-2000:]
    assert printed.startswith("The tool says: ")
    assert "27" in printed
    assert len(model.requests) == 2
