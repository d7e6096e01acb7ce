import pytest

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.retriever.domain.context.duplicates import DuplicateFilter, are_alike, compute_wording

from .context_items import distinct, hit

LONG = "直播电商模块的所有接口都必须在请求头中携带 game-id 参数,网关会校验它的格式,不合法的请求会被拒绝并记录。"
ENGLISH = "All calls of the live module carry the header game-id; the gateway checks its form and logs what is wrong."


def item(content: str, title: str = "规则", scope: str = "") -> KnowledgeItem:
    return hit(1, content, title=title, scope=scope).item


def find_alike(one: KnowledgeItem, other: KnowledgeItem, wanted: str | None = None) -> bool:
    said = DuplicateFilter(wanted)
    for unlike in distinct(20):
        said.add_wording(compute_wording(unlike.item))
    said.add_wording(compute_wording(one))
    found = said.has_similar(compute_wording(other))
    assert found == are_alike(compute_wording(one), compute_wording(other), wanted)
    return found


def test_the_same_content_apart_from_case_width_blanks_and_punctuation_is_alike() -> None:
    shouted = ENGLISH.upper().replace(";", "；").replace(" ", "\n ")
    assert find_alike(item(ENGLISH, title="one"), item(shouted, title="quite another"))


def test_texts_that_share_nearly_all_are_alike_in_any_order() -> None:
    for text in (LONG, ENGLISH):
        longer = item(f"{text} 详见手册")
        assert find_alike(item(text), longer)
        assert find_alike(longer, item(text))


def test_texts_that_share_a_half_are_not() -> None:
    assert not find_alike(
        item(ENGLISH), item(ENGLISH[:60] + " whereas rooms are listed page by page and sorted by time.")
    )
    assert not find_alike(item(LONG), item(LONG[:30]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{ENGLISH} It answers 400.", f"{ENGLISH} It answers 403."),
        (f"{LONG}超时为 30 秒。", f"{LONG}超时为 60 秒。"),
        (f"{ENGLISH} It is logged.", f"{ENGLISH} It is not logged."),
        (f"{LONG}需要登录。", f"{LONG}不需要登录。"),
    ],
)
def test_rules_that_differ_in_a_number_or_a_negation_are_both_kept(one: str, other: str) -> None:
    assert not find_alike(item(one), item(other))


def test_a_content_that_says_little_by_itself_needs_its_title() -> None:
    assert not find_alike(item("30 s", title="Timeout of payments"), item("30 s", title="Life of a room"))
    assert find_alike(item("30 s", title="Timeout of payments"), item("30 s", title="timeout of payments"))


@pytest.mark.parametrize(
    ("above", "below", "wanted", "expected"),
    [
        ("/api/live/*", "/api/live/rooms", None, True),
        ("", "/api/live/rooms", None, True),
        ("/api/live/rooms", "/api/shop/rooms", None, False),
        ("/api/live/rooms", "", None, False),
        ("/api/live/rooms", "", "/api/live/rooms", True),
        ("/api/live/rooms", "/api/live/gifts", "/api/live/*", False),
    ],
)
def test_the_same_rule_of_another_place_is_another_rule(
    above: str, below: str, wanted: str | None, *, expected: bool
) -> None:
    assert find_alike(item(LONG, scope=above), item(LONG, scope=below), wanted) is expected
