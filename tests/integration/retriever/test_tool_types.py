"""What becomes of a point whose kind of tool is absent or none of the three, and of a search that fails."""

from collections.abc import Iterable

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tools import ToolType
from skillbus.vectors import DENSE, LEXICAL, models, point_id
from skillbus.vectors.datasets import TOOLS

from .conftest import Running, TopicModel


async def _put(running: Running, **payload: object) -> None:
    """A point of a tool about music with these fields, in the index that is searched."""
    collection = await running.store.resolve_alias(TOOLS.alias)
    assert collection is not None
    fields: dict[str, object] = {
        "project": "default",
        "tool_id": "odd",
        "name": "odd",
        "description": "Plays music.",
        "tags": [],
        "metadata": {},
        **payload,
    }
    vectors: dict[str, models.Vector] = {
        DENSE: TopicModel().embed(["music"], TextRole.DOCUMENT)[0].tolist(),
        LEXICAL: models.SparseValues(indices=[1], values=[1.0]),
    }
    point = models.PointStruct(id=point_id("default", "odd"), vector=vectors, payload=fields)
    await running.store.upsert(collection, [point])


def _told(logs: Iterable[EventDict], event: str) -> list[tuple[object, object]]:
    return [(log["log_level"], log["tool_id"]) for log in logs if log["event"] == event]


@pytest.mark.spec("tool-type.md § 3.4-2 默认 skill")
@pytest.mark.spec("tool-type.md § 3.5 undefined → skill + debug")
@pytest.mark.spec("tool-type.md § 6.1 toolType 为空时默认处理")
async def test_a_tool_without_a_kind_is_found_as_a_skill_with_a_debug_line(running: Running) -> None:
    """tool-type.md § 6.1 功能测试: toolType 为空时默认处理; § 3.5 异常处理: undefined; § 3.4 类型默认值"""
    await running.install("player", "Plays a song.")
    await _put(running)
    structlog.reset_defaults()
    with capture_logs() as logs:
        hits = {hit.id: hit for hit in (await running.search("music", threshold=0)).results}
    assert (hits["odd"].tool_type, hits["odd"].metadata["type"]) == (ToolType.SKILL, "skill")
    assert _told(logs, "tool_type_absent") == [("debug", "odd")]


@pytest.mark.spec("tool-type.md § 3.4-2 默认 skill")
async def test_a_tool_without_a_kind_is_found_by_a_filter_for_skills_and_by_no_other(running: Running) -> None:
    """tool-type.md § 3.4 类型默认值"""
    await running.install("player", "Plays a song.")
    await _put(running)
    assert sorted(await running.found("music", threshold=0, tool_types=["skill"])) == ["odd", "player"]
    assert sorted(await running.found("music", threshold=0, quotas={"skill": 2})) == ["odd", "player"]
    assert await running.found("music", threshold=0, tool_types=["mcp", "builtin"]) == []


@pytest.mark.spec("tool-type.md § 3.5 非法值 → 跳过 + warn")
@pytest.mark.spec("tool-type.md § 4 日志脱敏")
@pytest.mark.parametrize("kind", ["plugin", "", "SKILL"])
async def test_a_tool_of_a_kind_that_is_not_on_the_list_is_skipped_with_a_warning(running: Running, kind: str) -> None:
    """tool-type.md § 3.5 异常处理: 非法值; § 4 安全设计: 白名单校验"""
    await running.install("player", "Plays a song.")
    await _put(running, tool_type=kind)
    structlog.reset_defaults()
    with capture_logs() as logs:
        found = await running.found("music", threshold=0)
    assert found == ["player"]
    assert _told(logs, "tool_type_unknown") == [("warning", "odd")]


@pytest.mark.spec("tool-type.md § 3.5 数据库查询失败 → 抛出")
async def test_a_query_that_the_store_cannot_answer_is_passed_up_as_an_error(running: Running) -> None:
    """tool-type.md § 3.5 异常处理: 数据库查询失败"""
    await running.install("player", "Plays a song.")
    running.store.down = True
    with pytest.raises(RequestError) as raised:
        await running.search("music", tool_types=["skill"])
    assert raised.value.code is ErrorCode.VECTOR_STORE_UNAVAILABLE
