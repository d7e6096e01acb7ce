"""Seeded data for the benchmarks: tools, requests for tools, knowledge items, questions, and log lines.

Every function gives the same data for the same arguments, so that two runs measure the same work. Half of the texts
are Chinese. Lengths follow those of real catalogues: some 150 characters a tool, 130 a request, 200 to 1,200 an item.
What a benchmark says about speed holds for such data; what it says about quality needs real, judged data.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import JsonValue

SEED: Final = 7

Record = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Language:
    """Words and sentence patterns of one language."""

    verbs: Sequence[str]
    objects: Sequence[str]
    places: Sequence[str]
    details: Sequence[str]
    tool_pattern: str
    request_pattern: str
    separator: str


_ENGLISH: Final = Language(
    verbs=(
        "create", "cancel", "translate", "convert", "summarise", "compare", "schedule", "merge", "validate", "export",
        "import", "archive", "search", "rename", "encrypt", "resize", "forecast", "refund", "deploy", "monitor",
    ),
    objects=(
        "an order", "a calendar event", "a PDF report", "an invoice", "a support ticket", "a database table", "a photo",
        "a video clip", "a shipping label", "a weather station", "a stock portfolio", "a git branch", "a log file",
        "a customer profile", "a subscription", "a spreadsheet", "a chat message", "a hotel booking", "a test run",
        "a voice recording",
    ),
    places=(
        "in the online shop", "for a travel agency", "on a build server", "for the finance team", "in a smart home",
        "on a mobile phone", "for a news site", "in a hospital", "for a school class", "in a warehouse",
    ),
    details=(
        "Returns the result as JSON with an identifier and a timestamp.",
        "Accepts dates in ISO 8601 and time zones by name.",
        "Fails with a clear message when a field is missing.",
        "Handles up to one thousand entries in one call.",
        "Keeps the original and writes a copy next to it.",
        "Asks for confirmation before anything is deleted.",
        "Works without a network connection.",
        "Supports filters by owner, tag and status.",
    ),
    tool_pattern="{verb} {object} {place}. {detail}",
    request_pattern="I have to {verb} {object} {place}, and later {other} too. {detail} Which tool can do that for me?",
    separator=" ",
)  # fmt: skip
_CHINESE: Final = Language(
    verbs=(
        "创建", "取消", "翻译", "转换", "汇总", "比较", "安排", "合并", "校验", "导出",
        "导入", "归档", "搜索", "重命名", "加密", "缩放", "预测", "退款", "部署", "监控",
    ),
    objects=(
        "订单", "日历事件", "PDF 报告", "发票", "客服工单", "数据库表", "照片", "视频片段", "快递面单", "气象站数据",
        "股票组合", "代码分支", "日志文件", "客户资料", "订阅", "电子表格", "聊天消息", "酒店预订", "测试任务",
        "语音录音",
    ),
    places=(
        "用于直播电商", "面向旅行社", "在构建服务器上", "供财务团队使用", "在智能家居中",
        "在手机上", "供新闻网站使用", "在医院里", "面向学校班级", "在仓库里",
    ),
    details=(
        "结果以 JSON 返回，包含编号和时间戳。", "日期采用 ISO 8601，时区写名称。", "缺少字段时给出明确的错误信息。",
        "一次最多处理一千条记录。", "保留原件，并在旁边写入副本。", "删除之前需要确认。", "不需要网络连接。",
        "支持按负责人、标签和状态筛选。",
    ),
    tool_pattern="{verb}{object}，{place}。{detail}",
    request_pattern="我需要{verb}{object}，{place}，之后还要处理{other}。{detail}请问哪个工具可以帮我完成这件事情？",
    separator="",
)  # fmt: skip
_TOOL_TYPES: Final = ("external", "mcp", "skill", "builtin")
_KNOWLEDGE_TYPES: Final = ("project_config", "business_rule", "module_context", "test_experience")
_LOG_TEMPLATES: Final = (
    "INFO  order {number} created for customer {other} in {ms} ms",
    "INFO  GET /api/orders/{number} 200 {ms} ms",
    "WARN  retry {digit} of payment {number} after {ms} ms",
    "ERROR payment {number} refused: timeout after {ms} ms, provider bank-{digit}",
    "INFO  cache miss for key user:{number}",
)


def generate_tools(count: int, seed: int = SEED) -> list[Record]:
    """Return descriptions as `PUT /api/tools` takes them, each with a text of its own."""
    dice = random.Random(seed)
    return [_generate_tool(dice, number) for number in range(count)]


def _generate_tool(dice: random.Random, number: int) -> Record:
    language = _CHINESE if number % 2 else _ENGLISH
    words = _choose_words(dice, language)
    sentences = [language.tool_pattern.format(**words), *dice.sample(language.details, 2)]
    names = [f"field_{dice.randrange(100)}" for _ in range(dice.randrange(4))]
    return {
        "id": f"generated.{number}",
        "name": f"{dice.choice(_ENGLISH.verbs)}_{dice.choice(_ENGLISH.objects).split()[-1]}_{number}".lower(),
        "tool_type": _TOOL_TYPES[number % len(_TOOL_TYPES)],
        "description": f"{language.separator.join(sentences)} #{number}",
        "tags": [dice.choice(_ENGLISH.places).split()[-1]],
        "parameters": {"type": "object", "properties": {name: {"type": "string"} for name in names}},
    }


def generate_requests(count: int, seed: int = SEED) -> list[str]:
    """Return requests for such tools, all different."""
    dice, requests = random.Random(seed + 1), dict[str, None]()
    while len(requests) < count:
        language = _CHINESE if len(requests) % 2 else _ENGLISH
        request = language.request_pattern.format(**_choose_words(dice, language))
        requests[f"{request} ({dice.randrange(10_000)})"] = None
    return list(requests)


def generate_knowledge(count: int, seed: int = SEED) -> list[Record]:
    """Return items as an import of knowledge takes them, each with an id of its own."""
    dice = random.Random(seed + 2)
    return [_generate_item(dice, number) for number in range(count)]


def _generate_item(dice: random.Random, number: int) -> Record:
    language = _CHINESE if number % 2 else _ENGLISH
    length = dice.randrange(3, 12) if language is _ENGLISH else dice.randrange(8, 30)
    sentences = [language.tool_pattern.format(**_choose_words(dice, language)) for _ in range(length)]
    return {
        "id": f"generated-{number}",
        "type": _KNOWLEDGE_TYPES[number % len(_KNOWLEDGE_TYPES)],
        "title": f"{sentences[0][:60]} #{number}",
        "content": language.separator.join(sentences),
        "tags": [f"tag-{dice.randrange(20)}"],
    }


def generate_questions(count: int, seed: int = SEED) -> list[str]:
    """Return questions about such items, all different."""
    return [
        request[: len(request) // 2] + f" {number}?"
        for number, request in enumerate(generate_requests(count, seed + 3))
    ]


def generate_log(count: int, seed: int = SEED) -> Iterator[str]:
    """Yield log lines of a few templates, in the order of their times."""
    dice, at = random.Random(seed + 4), datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(count):
        at += timedelta(milliseconds=dice.randrange(1, 2_000))
        values = {"number": dice.randrange(10**6), "other": dice.randrange(10**4), "ms": dice.randrange(1, 900)}
        line = dice.choice(_LOG_TEMPLATES).format(**values, digit=dice.randrange(10))
        yield f"{at.isoformat(timespec='milliseconds')} {line}"


def read_tools(file: str | None, count: int) -> list[Record]:
    """Return the descriptions of an NDJSON file, or `count` generated ones."""
    return generate_tools(count) if file is None else _read_lines(Path(file))


def read_queries(file: str | None, count: int) -> list[str]:
    """Return `count` different queries of an NDJSON file in a seeded order, or generated ones."""
    if file is None:
        return generate_requests(count)
    queries = sorted({str(line["query"])[:300] for line in _read_lines(Path(file))})
    random.Random(SEED).shuffle(queries)
    if len(queries) < count:
        raise ValueError(f"{file} has {len(queries)} different queries, and {count} are needed: lower --rounds")
    return queries[:count]


def read_knowledge(folder: str | None, count: int) -> list[Record]:
    """Return the items of all `*/docs.jsonl` of a folder, or `count` generated ones."""
    if folder is None:
        return generate_knowledge(count)
    return [line for file in sorted(Path(folder).glob("*/docs.jsonl")) for line in _read_lines(file)]


def _read_lines(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def _choose_words(dice: random.Random, language: Language) -> dict[str, str]:
    return {
        "verb": dice.choice(language.verbs),
        "object": dice.choice(language.objects),
        "other": dice.choice(language.objects),
        "place": dice.choice(language.places),
        "detail": dice.choice(language.details),
    }
