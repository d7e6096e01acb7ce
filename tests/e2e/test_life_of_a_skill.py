"""The whole life of a skill as the specification draws it, from its zip to nothing, beside tools of other kinds."""

import pytest

from .conftest import System, names, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

_NAME = "desk-work"
_WHERE = ["catalogue", "package", "folder", "hit"]


def _places(trace: list[str]) -> list[str]:
    return [place.partition(" ")[0] for place in trace]


@pytest.mark.spec("tool-system.md § Skills生命周期图 安装 (验证, 无效 → 错误, 解压, 元数据, 嵌入, 存储, 注册)")
async def test_a_zip_without_a_skill_is_refused_and_nothing_of_it_stays(system: System) -> None:
    """tool-system.md § Skills生命完整周期: 结构是否有效? 否 → 返回错误: 无效结构"""
    before = await system.counts()
    refused = await system.install(skill_package(_NAME, "", {}))
    assert problem(refused) == (422, "skill_rejected")
    assert await system.trace_of(_NAME) == []
    assert await system.counts() == before


@pytest.mark.spec("tool-system.md § 4 生命周期管理")
@pytest.mark.spec("tool-system.md § SkillManager 安装")
@pytest.mark.spec("tool-system.md § Skills生命周期图 安装 (验证, 无效 → 错误, 解压, 元数据, 嵌入, 存储, 注册)")
@pytest.mark.spec("tool-system.md § 新路径 data/skills/{skill-name}/")
async def test_an_installed_skill_is_unpacked_indexed_and_in_the_list(system: System) -> None:
    """tool-system.md § Skills生命完整周期: 解压 → 读取元数据 → 生成向量嵌入 → 存储 → 注册到可用列表 → 安装成功"""
    installed = await system.install(skill_package(_NAME, "核对发票的金额和税号", tags=("office",)))
    assert (installed.status_code, installed.json()["outcome"]) == (201, "installed")
    assert (system.data / "skills" / _NAME / "SKILL.md").is_file()
    assert (system.data / "skills" / _NAME / ".vectorized").is_file()
    assert _places(await system.trace_of(_NAME)) == _WHERE
    assert names(await system.hits("帮我核对这张发票", limit=1)) == [_NAME]
    assert (await system.run(_NAME)).json()["status"] == "ok"


@pytest.mark.spec("tool-system.md § SkillManager 列表")
@pytest.mark.spec("tool-system.md § SkillController (Skills REST)")
async def test_the_list_tells_what_a_skill_is(system: System) -> None:
    """tool-system.md § SkillManager 列表: 已安装Skills的元数据列表API"""
    listed = (await system.http.get("/api/skills")).json()["skills"]
    (skill,) = [one for one in listed if one["name"] == _NAME]
    assert (skill["description"], skill["tags"], skill["enabled"]) == (
        "核对发票的金额和税号",
        ["office"],
        True,
    )


@pytest.mark.spec("tool-system.md § SkillManager 修改 (仅描述)")
async def test_only_its_description_is_changed_and_it_is_embedded_again(system: System) -> None:
    """tool-system.md § SkillManager 修改: 仅允许修改SKILL.md描述 → 重新向量化"""
    path = f"/api/skills/{_NAME}"
    script = system.data / "skills" / _NAME / "scripts" / "main.py"
    before = script.read_bytes()
    more = await system.http.patch(path, json={"description": "预订会议室", "name": "other", "version": "9"})
    assert problem(more) == (400, "invalid_request")
    assert (await system.http.patch(path, json={"description": "预订会议室"})).status_code == 200
    assert names(await system.hits("帮我订一间会议室", limit=1)) == [_NAME]
    assert _NAME not in names(await system.hits("帮我核对这张发票"))
    skill = (await system.http.get(path)).json()
    assert (skill["name"], skill["version"], script.read_bytes()) == (_NAME, None, before)


@pytest.mark.spec("tool-system.md § 4 生命周期管理")
@pytest.mark.spec("tool-system.md § SkillManager 卸载")
@pytest.mark.spec("tool-system.md § Skills生命周期图 卸载")
async def test_an_uninstalled_skill_is_in_no_place_any_more(system: System) -> None:
    """tool-system.md § Skills生命完整周期: 卸载 → 删除目录 → 从LanceDB删除向量 → 卸载成功"""
    assert (await system.http.delete(f"/api/skills/{_NAME}")).status_code == 200
    assert await system.trace_of(_NAME) == []
    assert problem(await system.run(_NAME)) == (404, "skill_not_found")
