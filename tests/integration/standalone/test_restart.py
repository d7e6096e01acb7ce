"""The same data again: what was there is there, what changed meanwhile is seen, and nothing is done twice."""

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from skillbus.common.testing import eventually
from skillbus.contracts.indexer.skills import (
    GET_SKILL,
    GET_STATUS,
    INSTALL_SKILL,
    LIST_SKILLS,
    InstallSkill,
    ListSkills,
    SkillSelector,
)
from skillbus.contracts.message import Content, Empty
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools
from skillbus.standalone.app import Standalone, StandaloneSettings, open_standalone
from skillbus.vectors import open_vector_store
from skillbus.vectors.datasets import TOOLS

from .packages import content_of, skill_md


@asynccontextmanager
async def _started(data: Path) -> AsyncGenerator[Standalone]:
    async with open_standalone(StandaloneSettings(data=data, http_port=0)) as running:
        yield running


async def _first(running: Standalone, query: str) -> str:
    found = await running.bus.caller.call(SEARCH_TOOLS, SearchTools(query=query, limit=1))
    return found.results[0].name if found.results else ""


async def _names(running: Standalone) -> list[str]:
    return [skill.name for skill in (await running.bus.caller.call(LIST_SKILLS, ListSkills())).skills]


async def _install(running: Standalone, name: str, description: str) -> None:
    package: Content = content_of(name, description)
    await running.bus.caller.call(INSTALL_SKILL, InstallSkill(package=package))


async def _indexed_at(data: Path) -> dict[str, object]:
    """When the point of each skill was made. The store must be closed elsewhere."""
    async with open_vector_store(None, data / "vectors") as store:
        collection = await store.resolve_alias(TOOLS.alias)
        assert collection is not None
        records, _ = await store.scroll(collection)
    payloads = [record.payload or {} for record in records]
    return {str(of["name"]): of["indexed_at"] for of in payloads if of["tool_type"] == "skill"}


@pytest.mark.spec("skill-vector-retrieval.md § 重复初始化")
@pytest.mark.spec("skill-vector-retrieval.md § Skills内容未变更")
async def test_after_a_restart_skills_are_found_and_those_unchanged_were_skipped(tmp_path: Path) -> None:
    """skill-vector-retrieval.md § 重复初始化, § Skills内容未变更"""
    async with _started(tmp_path) as running:
        for name, description in {"weather": "查询城市天气预报", "translate": "Translates texts."}.items():
            await _install(running, name, description)
    marks = {path: path.read_text() for path in tmp_path.glob("skills/*/.vectorized")}
    before = await _indexed_at(tmp_path)
    assert len(marks) == len(before) == 2

    structlog.reset_defaults()
    with capture_logs() as logs:
        async with _started(tmp_path) as running:
            assert await _names(running) == ["translate", "weather"]
            assert await _first(running, "明天上海天气怎么样") == "weather"

            async def skipped() -> set[str]:
                return {log["skill"] for log in logs if log["event"] == "skill_unchanged_skipped"}

            assert await eventually(skipped, lambda names: len(names) == 2) == {"weather", "translate"}
            assert [log for log in logs if log["event"] in ("skill_installed", "collection_live")] == []
    assert {path: path.read_text() for path in tmp_path.glob("skills/*/.vectorized")} == marks
    assert await _indexed_at(tmp_path) == before


@pytest.mark.spec("skill-vector-retrieval.md § Skills描述变更")
async def test_what_changed_in_the_folders_meanwhile_is_taken_up_at_the_next_start(tmp_path: Path) -> None:
    """skill-vector-retrieval.md § Skills描述变更, § 首次索引Skills"""
    async with _started(tmp_path) as running:
        for name in ("changed", "gone", "kept"):
            await _install(running, name, "Plays music.")
    changed = tmp_path / "skills" / "changed"
    hash_before = json.loads((changed / ".vectorized").read_text())["skillHash"]
    (changed / "SKILL.md").write_text(skill_md("changed", "预订酒店"), "utf-8")
    (tmp_path / "skills" / "new").mkdir()
    (tmp_path / "skills" / "new" / "SKILL.md").write_text(skill_md("new", "Waters the plants."), "utf-8")
    shutil.rmtree(tmp_path / "skills" / "gone")

    async with _started(tmp_path) as running:

        async def is_as_it_should_be() -> bool:
            skill = await running.bus.caller.call(GET_SKILL, SkillSelector(name="changed"))
            there = {path.parent.name for path in tmp_path.glob("skills/*/.vectorized")}
            return skill.description == "预订酒店" and skill.indexed and there == {"changed", "gone", "kept", "new"}

        assert await eventually(is_as_it_should_be, bool)
        assert await _first(running, "预订一家巴黎的酒店") == "changed"
        assert await _first(running, "water my plants") == "new"
        await eventually(
            lambda: running.bus.caller.call(GET_STATUS, Empty()),
            lambda of: (of.skills, of.waiting, (of.points or 0) - of.tools) == (4, 0, 4),
        )
    mark = json.loads((changed / ".vectorized").read_text())
    assert mark["skillHash"] != hash_before
    assert mark["skillSize"] == len((changed / "SKILL.md").read_bytes())


async def test_a_lost_vector_store_is_made_again_from_the_catalogue(tmp_path: Path) -> None:
    async with _started(tmp_path) as running:
        await _install(running, "weather", "查询城市天气预报")
    shutil.rmtree(tmp_path / "vectors")
    async with _started(tmp_path) as running:
        assert await eventually(lambda: _first(running, "天气预报"), lambda name: name == "weather") == "weather"


@pytest.mark.spec("skill-vector-retrieval.md § 首次初始化")
async def test_at_the_first_start_collection_and_folders_are_made(tmp_path: Path) -> None:
    """skill-vector-retrieval.md § 首次初始化"""
    async with _started(tmp_path / "data") as running:
        await _install(running, "weather", "查询城市天气预报")
        status = await running.bus.caller.call(GET_STATUS, Empty())
        assert status.collection is not None
        assert status.collection.startswith("tools-")
    async with open_vector_store(None, tmp_path / "data" / "vectors") as store:
        records, _ = await store.scroll(TOOLS.alias)
    payload = records[0].payload or {}
    assert {"tool_id", "name", "description", "tags", "metadata", "indexed_at"} <= payload.keys()
