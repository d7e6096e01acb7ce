"""The Compose deployment, from its images to what people do with it, and through restarts."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from skillbus.common.archive import pack_directory

from .compose import ROOT, Stack
from .load import Answer, search, searching

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

SKILLS = ROOT / "examples" / "skills"
COMMIT = "帮我提交代码"
RECOVERY_S = 60.0
ANSWER_S = 20.0
"""No search may take longer, whatever happens: its own deadline is 10 s."""


def upload(stack: Stack, skill: Path) -> httpx.Response:
    with stack.client() as client:
        return client.post("/api/skills", files={"package": (f"{skill.name}.zip", pack_directory(skill))})


def becomes_true(holds: Callable[[], bool], within_s: float = RECOVERY_S) -> bool:
    """Ask until it holds. Each question is an HTTP request, which paces the loop."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.1)
    return False


def finds(stack: Stack, query: str, name: str) -> bool:
    answer = search(stack, query)
    return answer.status == 200 and answer.found == name


@pytest.fixture(scope="module")
def skills(stack: Stack) -> list[str]:
    """The names of the example skills, all installed and found."""
    names = []
    for skill in sorted(path for path in SKILLS.iterdir() if path.is_dir()):
        reply = upload(stack, skill)
        assert reply.status_code == 201, reply.text
        names.append(reply.json()["name"])
    assert becomes_true(lambda: finds(stack, COMMIT, "git-commit"))
    return names


def test_every_container_is_healthy_and_none_runs_as_root(stack: Stack) -> None:
    services = {"nats", "qdrant", "embedder", "indexer", "retriever", "learner", "sandbox", "agent", "gateway"}

    containers = {container.Service: container for container in stack.compose.get_containers()}

    assert set(containers) == services
    assert {container.Health for container in containers.values()} == {"healthy"}
    for service in services - {"qdrant"}:  # whose user is its image's, to be had as another tag
        assert stack.compose.command("exec", "-T", service, "id", "-u").strip() == "10001", service


def test_nothing_is_answered_without_the_owners_key(stack: Stack) -> None:
    reply = httpx.get(f"{stack.url}/api/skills", trust_env=False)
    assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")


def test_an_uploaded_skill_is_found_in_chinese_and_run(stack: Stack, skills: list[str]) -> None:
    assert "git-commit" in skills
    diff = "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-old\n+new\n"

    with stack.client() as client:
        found = client.post("/api/tools/search", json={"query": COMMIT, "limit": 3}).json()
        ran = client.post("/api/skills/git-commit/run", json={"args": {"diff": diff, "language": "zh"}}).json()

    assert found["results"][0]["name"] == "git-commit"
    assert not found["degraded"]
    assert (ran["status"], ran.get("exit_code")) == ("ok", 0), json.dumps(ran, ensure_ascii=False)
    assert ran["result"]["type"] == "docs"


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("calculate", {"expression": "(1 + 2) * 3"}, {"value": 9}),
        ("json-format", {"text": '{"b":1}'}, {}),
        ("word-count", {"text": "one two"}, {}),
    ],
)
def test_skills_run_isolated_as_a_container_can(
    stack: Stack, skills: list[str], name: str, args: dict[str, object], expected: dict[str, object]
) -> None:
    assert name in skills
    with stack.client() as client:
        ran = client.post(f"/api/skills/{name}/run", json={"args": args}).json()
    assert ran["status"] == "ok", json.dumps(ran, ensure_ascii=False)
    assert ran["isolation"] == "container"
    assert json.loads(ran["stdout"]).items() >= expected.items() if expected else ran["stdout"]


@pytest.mark.parametrize("service", ["retriever", "indexer"])
def test_a_restart_under_load_answers_every_search_and_recovers(stack: Stack, skills: list[str], service: str) -> None:
    with searching(stack, COMMIT) as answers:
        # Docker's `restart` is these two. That of Podman 4.3 kills at once: what a killed service has taken is lost.
        stack.compose.command("stop", service)
        stack.compose.command("start", service)
        restarted = time.monotonic()
        assert becomes_true(lambda: finds(stack, COMMIT, "git-commit"))
        assert becomes_true(lambda: any(a.status == 200 and a.asked_at > restarted for a in list(answers)))

    assert all(answer.seconds < ANSWER_S for answer in answers)
    assert {answer.found for answer in answers if answer.status == 200} == {"git-commit"}
    assert [answer for answer in answers if answer.status != 200 and not is_unavailable(answer)] == []


def is_unavailable(answer: Answer) -> bool:
    """Whether it says that nobody answers, or, just after a start, that its store does not yet."""
    codes = {"unavailable", "vector_store_unavailable"}
    return (answer.status, answer.media_type) == (503, "application/problem+json") and answer.code in codes


@pytest.mark.spec("skill-vector-retrieval.md § LanceDB连接失败")
def test_a_skill_uploaded_without_a_vector_store_is_found_when_it_is_back(stack: Stack, tmp_path: Path) -> None:
    skill = tmp_path / "tide-table"
    skill.mkdir()
    skill.joinpath("SKILL.md").write_text(
        "---\nname: tide-table\ndescription: 查询某个海港明天的涨潮和退潮时间。\n---\n\n# 潮汐表\n", encoding="utf-8"
    )
    stack.compose.command("stop", "qdrant")
    try:
        uploaded = upload(stack, skill)
        without = search(stack, "明天几点涨潮")
    finally:
        stack.compose.command("start", "qdrant")

    assert uploaded.status_code == 201, uploaded.text
    assert (without.status, without.code) == (503, "vector_store_unavailable")
    assert becomes_true(lambda: finds(stack, "明天几点涨潮", "tide-table"), within_s=120)


def test_everything_is_there_again_after_all_containers_were_made_anew(stack: Stack, skills: list[str]) -> None:
    stack.compose.command("up", "--detach", "--wait", "--force-recreate")

    with stack.client() as client:
        listed = {skill["name"] for skill in client.get("/api/skills", params={"limit": 100}).json()["skills"]}
    assert set(skills) <= listed
    assert becomes_true(lambda: finds(stack, COMMIT, "git-commit"))
