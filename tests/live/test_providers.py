"""Real providers: the vectors that they return are unit vectors, and mean what the texts mean.

Each test is skipped without its key: DASHSCOPE_API_KEY, OPENAI_API_KEY, or OLLAMA_HOST for an Ollama that has the model
of OLLAMA_MODEL (default nomic-embed-text).
"""

import os
from typing import Final

import pytest

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import check_rows

from .conftest import OpenLive, ollama_models, required

COMMANDS: Final = {
    "light.on": "打开灯", "light.off": "关闭灯", "light.brightness": "调节灯的亮度", "light.colour": "设置灯的颜色",
    "ac.on": "打开空调", "ac.off": "关闭空调", "ac.temperature": "设置空调温度", "ac.mode": "切换空调的制冷或制热模式",
    "curtain.open": "打开窗帘", "curtain.close": "关闭窗帘", "tv.on": "打开电视", "tv.volume": "调节电视音量",
    "robot.start": "让扫地机器人开始清扫", "robot.dock": "让扫地机器人回充", "lock.lock": "锁上门锁",
}  # fmt: skip


async def test_dashscope_counts_tokens_and_shortens_vectors(open_live: OpenLive) -> None:
    required("DASHSCOPE_API_KEY")
    async with open_live(
        ProviderKind.DASHSCOPE, "text-embedding-v4", key="DASHSCOPE_API_KEY", dimensions=256, request_dimensions=True
    ) as model:
        made = await model.embed(["打开灯"], TextRole.DOCUMENT)
    check_rows(made.rows, 1, 256)
    assert made.tokens


async def test_openai_returns_unit_vectors_of_the_dimensions_asked_for(open_live: OpenLive) -> None:
    required("OPENAI_API_KEY")
    async with open_live(
        ProviderKind.OPENAI, "text-embedding-3-small", key="OPENAI_API_KEY", dimensions=512, request_dimensions=True
    ) as model:
        made = await model.embed(list(COMMANDS.values()), TextRole.DOCUMENT)
    check_rows(made.rows, len(COMMANDS), 512)
    assert made.tokens


async def test_openai_says_that_it_has_no_such_model(open_live: OpenLive) -> None:
    required("OPENAI_API_KEY")
    async with open_live(ProviderKind.OPENAI, "no-such-model", key="OPENAI_API_KEY") as model:
        with pytest.raises(ModelUnavailableError):
            await model.embed(["a"], TextRole.DOCUMENT)


async def test_ollama_returns_unit_vectors_and_tells_their_dimensions(open_live: OpenLive) -> None:
    """knowledge-base.md § 使用Ollama生成向量"""
    host = required("OLLAMA_HOST")
    base_url = (host if "://" in host else f"http://{host}").rstrip("/")
    name = os.environ.get("OLLAMA_MODEL", "nomic-embed-text")
    if not any(known.split(":")[0] == name.split(":")[0] for known in await ollama_models(base_url)):
        pytest.skip(f"the Ollama at {base_url} has no {name}")
    async with open_live(ProviderKind.OLLAMA, name, base_url=base_url) as model:
        alone = await model.embed(["代码分析工具"], TextRole.DOCUMENT)
        together = await model.embed(["代码分析工具", "计算工具"], TextRole.DOCUMENT)
    check_rows(together.rows, 2, alone.rows.shape[1])
    assert float(alone.rows[0] @ together.rows[0]) > 0.999
