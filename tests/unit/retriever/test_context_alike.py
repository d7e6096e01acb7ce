import pytest

from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.retriever.domain.context.duplicates import Said, alike, wording_of

from .context_items import distinct, hit

LONG = "直播电商模块的所有接口都必须在请求头中携带 game-id 参数,网关会校验它的格式,不合法的请求会被拒绝并记录。"
ENGLISH = "All calls of the live module carry the header game-id; the gateway checks its form and logs what is wrong."


def item(content: str, title: str = "规则", scope: str = "") -> KnowledgeItem:
    return hit(1, content, title=title, scope=scope).item


def are_alike(one: KnowledgeItem, other: KnowledgeItem, wanted: str | None = None) -> bool:
    said = Said(wanted)
    for unlike in distinct(20):
        said.add(wording_of(unlike.item))
    said.add(wording_of(one))
    found = said.tells(wording_of(other))
    assert found == alike(wording_of(one), wording_of(other), wanted)
    return found


def test_the_same_content_apart_from_case_width_blanks_and_punctuation_is_alike() -> None:
    shouted = ENGLISH.upper().replace(";", "；").replace(" ", "\n ")
    assert are_alike(item(ENGLISH, title="one"), item(shouted, title="quite another"))


def test_texts_that_share_nearly_all_are_alike_in_any_order() -> None:
    for text in (LONG, ENGLISH):
        longer = item(f"{text} 详见手册")
        assert are_alike(item(text), longer)
        assert are_alike(longer, item(text))


def test_texts_that_share_a_half_are_not() -> None:
    assert not are_alike(
        item(ENGLISH), item(ENGLISH[:60] + " whereas rooms are listed page by page and sorted by time.")
    )
    assert not are_alike(item(LONG), item(LONG[:30]))


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
    assert not are_alike(item(one), item(other))


def test_a_content_that_says_little_by_itself_needs_its_title() -> None:
    assert not are_alike(item("30 s", title="Timeout of payments"), item("30 s", title="Life of a room"))
    assert are_alike(item("30 s", title="Timeout of payments"), item("30 s", title="timeout of payments"))


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
    assert are_alike(item(LONG, scope=above), item(LONG, scope=below), wanted) is expected
