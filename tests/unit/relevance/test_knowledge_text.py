"""What of an item of knowledge becomes vectors."""

from hypothesis import given
from hypothesis import strategies as st

from skillbus.relevance.knowledge_text import PASSAGES, build_item_dense_texts, build_item_lexical_text


def test_the_title_and_each_passage_of_whole_sentences_are_embedded() -> None:
    first, second = "短句。" * 60, "A sentence of some words. " * 10
    assert build_item_dense_texts("标题", "") == ("标题",)
    assert build_item_dense_texts("标题", "只有一句。") == ("标题", "只有一句。")
    title, *passages = build_item_dense_texts("标题", first + second)
    assert title == "标题"
    assert len(passages) == 2
    assert all(passage.endswith(("。", ".")) for passage in passages)


def test_words_of_the_title_count_twice_and_all_of_the_content_is_read() -> None:
    text = build_item_lexical_text("game-id", "x " * 10_000 + "last", ("auth",))
    assert text.count("game-id") == 2
    assert text.index("auth") < text.index("x ")
    assert text.endswith("last")


@given(st.text(max_size=200), st.text(max_size=5_000))
def test_any_content_gives_a_bounded_number_of_texts_that_say_something(title: str, content: str) -> None:
    texts = build_item_dense_texts(title, content)
    assert 1 <= len(texts) <= PASSAGES + 1
    assert all(text.strip() for text in texts[1:])
    assert all(len(text) <= 1_400 for text in texts[1:])
