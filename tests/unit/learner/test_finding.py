"""Candidates that search may show, and the number that fits into a message."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from skillbus.common.bus.codec import encode
from skillbus.common.paging import MESSAGE_BYTES, cut_page
from skillbus.contracts.learner.index import FindKnowledge
from skillbus.contracts.learner.knowledge import KnowledgeItem
from skillbus.learner.domain.index.finder import CandidateFinder, CandidateSnapshot, RecordedCandidate, may_be_shown
from skillbus.learner.domain.item.values import bound_item_size, measure_item
from skillbus.learner.domain.usage import HALF_LIFE, Vote

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BUS_BYTES = 1024 * 1024


def item(number: int = 0, **fields: object) -> KnowledgeItem:
    given = {
        "id": f"item-{number}",
        "type": "business_rule",
        "title": "a title",
        "content": "some content",
        "scope": "/api/live/*",
        "tags": ("auth", "game-id"),
        "source": "wiki",
        "version": 1,
        "digest": "",
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return KnowledgeItem.model_validate(given)


def asks(**fields: object) -> FindKnowledge:
    return FindKnowledge.model_validate(fields)


class FakeRecord:
    """Answers with these items, whatever is asked."""

    def __init__(self, items: Sequence[KnowledgeItem], votes: Mapping[str, Sequence[Vote]]) -> None:
        recorded = {one.id: RecordedCandidate(one, content_cut=False, indexed_version=0) for one in items}
        self.answer = CandidateSnapshot(("default",), recorded, len(items), votes)

    async def load_snapshot(self, wanted: FindKnowledge) -> CandidateSnapshot:
        return self.answer


def finder(
    items: Sequence[KnowledgeItem], votes: Mapping[str, Sequence[Vote]] = MappingProxyType({})
) -> CandidateFinder:
    return CandidateFinder(FakeRecord(items, votes), lambda: NOW)


@pytest.mark.parametrize(
    ("fields", "asked", "shown"),
    [
        ({}, {}, True),
        ({"status": "pending"}, {}, False),
        ({"status": "archived"}, {}, False),
        ({"valid_from": NOW}, {}, True),
        ({"valid_from": NOW + HOUR}, {}, False),
        ({"valid_to": NOW}, {}, False),
        ({"valid_to": NOW + HOUR}, {}, True),
        ({}, {"types": ("business_rule", "project_config")}, True),
        ({}, {"types": ("project_config",)}, False),
        ({}, {"tags": ("auth", "none")}, True),
        ({}, {"tags": ("none",)}, False),
        ({}, {"all_tags": ("auth", "game-id")}, True),
        ({}, {"all_tags": ("auth", "none")}, False),
        ({}, {"sources": ("wiki",)}, True),
        ({}, {"sources": ("manual",)}, False),
        ({}, {"scope": "/api/live/rooms"}, True),
        ({}, {"scope": "/api/pay"}, False),
        ({"scope": ""}, {"scope": "/api/pay"}, True),
        ({"scope": "/api"}, {"scope": "/api/pay"}, True),
        ({"scope": "/api/pay/refunds"}, {"scope": "/api/pay"}, False),
        ({"scope": "/api/pay/refunds"}, {"scope": "/api/pay/*"}, True),
    ],
)
def test_an_item_is_shown_only_if_it_fits_all_that_is_asked(
    fields: dict[str, object], asked: dict[str, object], shown: bool
) -> None:
    assert may_be_shown(item(0, **fields), asks(**asked), NOW) is shown


async def test_validity_is_that_of_the_moment_that_is_asked_for() -> None:
    found = finder([item(valid_to=NOW)])
    assert not (await found.find_knowledge(asks(ids=("item-0",)))).items
    assert (await found.find_knowledge(asks(ids=("item-0",), at=NOW - HOUR))).items


async def test_candidates_come_in_the_order_of_the_request_and_each_once() -> None:
    matched = await finder([item(number) for number in range(4)]).find_knowledge(
        asks(ids=("item-2", "item-9", "item-0", "item-2"))
    )
    assert [one.item.id for one in matched.items] == ["item-2", "item-0"]
    assert (matched.projects, matched.index_behind) == (("default",), 4)


async def test_votes_come_with_their_weights() -> None:
    votes = [Vote(True, NOW), Vote(True, NOW - HALF_LIFE), Vote(False, NOW)]
    matched = await finder([item()], votes={"item-0": votes}).find_knowledge(asks(ids=("item-0",)))
    assert (matched.items[0].helpful, matched.items[0].unhelpful) == pytest.approx((1.5, 1.0))


@pytest.mark.parametrize("text", ["文" * 32_000, "\u0001" * 32_000, '"' * 32_000, "x" * 32_000])
async def test_an_answer_fits_the_bus_and_says_what_is_left(text: str) -> None:
    items = [item(number, content=text, tags=tuple(f"标{at}" * 25 for at in range(50))) for number in range(60)]
    ids = [one.id for one in items]
    matched = await finder(items).find_knowledge(asks(ids=ids, content_characters=32_000))
    assert len(encode(matched)) < BUS_BYTES
    assert matched.items
    assert [*(one.item.id for one in matched.items), *matched.left] == ids


def test_the_size_of_an_item_is_no_less_than_it_takes() -> None:
    text = "\u0001"
    large = item(
        title="文" * 500,
        content=text * 32_000,
        owner=text * 200,
        source_ref=text * 300,
        external_id=text * 300,
        lang=text * 35,
        created_by="文" * 200,
        updated_by="文" * 200,
        source="s" * 100,
        project="p" * 64,
        id="i" * 64,
        digest="d" * 64,
        valid_from=NOW,
        valid_to=NOW + HOUR,
    )
    assert len(encode(large)) <= measure_item(large) <= len(encode(large)) + 1_000


def test_one_item_always_fits() -> None:
    large = item(content="\u0001" * 32_000)
    assert measure_item(large) < MESSAGE_BYTES
    assert len(cut_page([large] * 10, measure_item)) == MESSAGE_BYTES // measure_item(large)


@pytest.mark.parametrize("text", ["x", "文", "😀", "\x01", '"\\'])
def test_the_bound_that_is_found_at_once_is_never_too_low(text: str) -> None:
    one = item(content=text * 1_000, title=text * 100, tags=(text * 10, text), owner=text, external_id=text)
    assert len(encode(one)) <= measure_item(one) <= bound_item_size(one)
