"""Searches that the specifications name, in a project that holds nothing but what they name."""

import pytest
import pytest_asyncio
from pydantic import JsonValue

from .conftest import Json, System, names, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

_PROJECT = "specified"
"""Without the builtin tools, which the default project has."""
_SPECIFIED = {"git-commit": "生成Git提交信息", "file-read": "读取文件", "calculate": "数学计算"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def three(system: System) -> None:
    """The three skills of § 检索相关Skills, and nothing else."""
    for name, description in _SPECIFIED.items():
        assert (await system.install(skill_package(name, description), _PROJECT)).status_code == 201


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def four(system: System, three: None) -> None:
    """And excel-analysis. Tests that need the three alone stand before those that use this."""
    package = skill_package("excel-analysis", "读取Excel分析数据")
    assert (await system.install(package, _PROJECT)).status_code == 201


async def _hits(system: System, query: str, **more: JsonValue) -> list[Json]:
    return await system.hits(query, project=_PROJECT, **more)


async def _nearest(system: System, query: str, **more: JsonValue) -> list[Json]:
    """Whether they fit or not."""
    return await _hits(system, query, threshold=0, **more)


def _score(hit: Json) -> float:
    return float(str(hit["score"]))


async def test_before_anything_is_installed_a_search_finds_an_empty_list(system: System) -> None:
    """tool-type.md § 6.3 边界测试: 空结果"""
    answer = await system.search("帮我提交代码", project=_PROJECT)
    assert (answer.status_code, answer.json()["results"], answer.json()["degraded"]) == (200, [], None)


@pytest.mark.spec("skill-vector-retrieval.md § 检索相关Skills")
async def test_a_request_to_commit_code_finds_git_commit_above_0_75(system: System, three: None) -> None:
    """skill-vector-retrieval.md § 检索相关Skills"""
    hits = await _hits(system, "帮我提交代码")
    assert hits[0]["name"] == "git-commit"
    assert _score(hits[0]) > 0.75


@pytest.mark.spec("skill-vector-retrieval.md § 中文查询检索")
async def test_a_request_to_analyse_an_excel_file_finds_excel_analysis(system: System, four: None) -> None:
    """skill-vector-retrieval.md § 中文查询检索"""
    hits = {hit["name"]: _score(hit) for hit in await _hits(system, "分析Excel文件", limit=3)}
    assert hits["excel-analysis"] > 0.7


@pytest.mark.spec("skill-vector-retrieval.md § 检索结果限制")
@pytest.mark.spec("tool-system.md § ToolRetrievalService: 向量数据库, 语义匹配 Top-N")
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_no_more_hits_come_than_the_limit(system: System, four: None, limit: int) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    assert len(await _nearest(system, "读取文件数据", limit=limit)) == min(limit, 4)


@pytest.mark.spec("skill-vector-retrieval.md § 检索结果限制")
@pytest.mark.spec("tool-system.md § ToolRetrievalService: 向量数据库, 语义匹配 Top-N")
@pytest.mark.parametrize("query", ["帮我提交代码", "分析Excel文件", "read a file", "数学"])
async def test_hits_come_in_descending_order_of_score(system: System, four: None, query: str) -> None:
    """skill-vector-retrieval.md § 检索结果限制"""
    scores = [_score(hit) for hit in await _nearest(system, query, limit=5)]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.spec("skill-vector-retrieval.md § 相似度阈值过滤")
async def test_hits_below_the_threshold_are_left_out(system: System, four: None) -> None:
    """skill-vector-retrieval.md § 相似度阈值过滤"""
    everything = await _nearest(system, "分析Excel文件", limit=5)
    above = await _hits(system, "分析Excel文件", limit=5, threshold=0.6)
    assert names(above) == [hit["name"] for hit in everything if _score(hit) >= 0.6]
    assert 0 < len(above) < len(everything)


async def test_a_threshold_that_nothing_reaches_gives_an_empty_list(system: System, four: None) -> None:
    """tool-type.md § 6.3 边界测试: 空结果"""
    assert await _hits(system, "谢谢，辛苦了", threshold=0.99) == []


@pytest.mark.spec("tool-type.md § 3.2.2 formatSearchResults")
async def test_every_hit_says_its_tool_type_at_the_top_and_in_its_metadata(system: System, four: None) -> None:
    """tool-type.md § 6.2 接口测试"""
    hits = await _nearest(system, "读取文件", limit=5)
    assert len(hits) == 4
    for hit in hits:
        assert {
            "id",
            "name",
            "description",
            "score",
            "cosine",
            "tool_type",
            "tags",
            "metadata",
            "reasons",
        } <= hit.keys()
        metadata = hit["metadata"]
        assert isinstance(metadata, dict)
        assert (hit["tool_type"], metadata["type"], hit["id"]) == ("skill", "skill", f"skill:{hit['name']}")


async def test_a_limit_of_one_gives_one_hit_with_its_tool_type(system: System, four: None) -> None:
    """tool-type.md § 6.3 边界测试: 单个结果"""
    assert [(hit["name"], hit["tool_type"]) for hit in await _hits(system, "读取文件", limit=1)] == [
        ("file-read", "skill")
    ]


@pytest.mark.parametrize(("kind", "found"), [("skill", 4), ("mcp", 0), ("builtin", 0)])
async def test_only_the_kinds_that_are_asked_for_are_found(system: System, four: None, kind: str, found: int) -> None:
    """tool-type.md § 6.2 接口测试"""
    assert len(await _nearest(system, "读取文件", tool_types=[kind])) == found


@pytest.mark.spec("skill-vector-retrieval.md § 相似度计算验证")
async def test_a_skills_own_words_are_nearest_to_itself(system: System, four: None) -> None:
    """skill-vector-retrieval.md § 相似度计算验证"""
    best, *others = await _nearest(system, "git-commit. 生成Git提交信息", limit=4)
    assert best["name"] == "git-commit"
    assert float(str(best["cosine"])) == pytest.approx(1.0, abs=1e-4)
    assert _score(best) > 0.99
    assert all(float(str(hit["cosine"])) < float(str(best["cosine"])) for hit in others)


async def test_the_same_query_gives_the_same_cosines_again(system: System, four: None) -> None:
    """skill-vector-retrieval.md § 生成Skills向量: deterministic

    Scores count the tools of the whole index, and for a second after a write the search goes by the old count.
    """
    first, second = [await _nearest(system, "分析Excel文件") for _ in range(2)]
    assert len(first) == 4
    assert {str(hit["id"]): hit["cosine"] for hit in first} == {str(hit["id"]): hit["cosine"] for hit in second}


@pytest.mark.spec("skill-vector-retrieval.md § 更新已索引Skills")
async def test_a_new_description_changes_what_finds_the_skill(system: System, four: None) -> None:
    """skill-vector-retrieval.md § 更新已索引Skills"""
    before = await _nearest(system, "预订去巴黎的酒店", limit=1)
    assert _score(before[0]) < 0.5
    changed = await system.http.patch(
        "/api/skills/calculate", json={"description": "预订酒店和机票"}, params={"project": _PROJECT}
    )
    assert (changed.status_code, changed.json()["outcome"]) == (200, "updated")
    after = await _nearest(system, "预订去巴黎的酒店", limit=1)
    assert (after[0]["name"], after[0]["description"]) == ("calculate", "预订酒店和机票")
    assert _score(after[0]) > _score(before[0])
    assert len(await _nearest(system, "预订去巴黎的酒店", limit=100)) == 4


async def test_an_uninstalled_skill_is_nowhere_any_more(system: System, four: None) -> None:
    """tool-system.md § SkillManager 卸载"""
    assert len(await system.trace_of("file-read", _PROJECT)) == 4
    assert (await system.http.delete("/api/skills/file-read", params={"project": _PROJECT})).status_code == 200
    assert await system.trace_of("file-read", _PROJECT) == []


async def test_only_tools_with_one_of_the_tags_are_found(system: System) -> None:
    for name, tags in {"one": ("git", "commit"), "two": ("filesystem",), "three": ("git-lfs",), "four": ()}.items():
        package = skill_package(name, "Reads and writes files.", tags=tags)
        assert (await system.install(package, project="tagged")).status_code == 201
    hits = await system.hits("files", tags=["filesystem", "git"], project="tagged")
    assert {str(hit["name"]): hit["tags"] for hit in hits} == {"one": ["git", "commit"], "two": ["filesystem"]}
