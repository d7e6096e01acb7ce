"""What a request for a context asks of search, counts with, and tells the statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillbus.contracts.learner.usage import AnsweredRequest
from skillbus.contracts.retriever.knowledge_search import BuildContext, KnowledgeHit, SearchKnowledge
from skillbus.retriever.adapters.tokenizers import TokenizerFiles
from skillbus.retriever.domain.context.builder import ContextBuilder
from skillbus.retriever.domain.errors import TokenizerUnknownError
from skillbus.retriever.domain.knowledge.ports import FoundKnowledge

from .context_items import byte_level_bpe, distinct, hit, id_of


@dataclass
class FakeFinder:
    """Finds what a test says."""

    hits: Sequence[KnowledgeHit] = ()
    degraded: bool = False
    asked: list[tuple[SearchKnowledge, int | None]] = field(default_factory=list)

    async def search_knowledge(self, request: SearchKnowledge, at_most: int | None = None) -> FoundKnowledge:
        self.asked.append((request, at_most))
        return FoundKnowledge(tuple(self.hits), None if self.degraded else "model", self.degraded)


@dataclass
class Notes:
    """A `UsageLog` that can be read."""

    used: list[AnsweredRequest] = field(default_factory=list)
    projects: list[str] = field(default_factory=list)

    def note(self, project: str, answered: AnsweredRequest) -> None:
        self.projects.append(project)
        self.used.append(answered)


@dataclass
class Building:
    """A builder, what it asks, and what it tells."""

    folder: Path
    finder: FakeFinder = field(default_factory=FakeFinder)
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        self.builder = ContextBuilder(self.finder, self.notes, TokenizerFiles(self.folder), at_once=1)


@pytest.fixture
def building(tmp_path: Path) -> Building:
    return Building(tmp_path)


async def test_search_is_asked_for_as_many_as_may_come_in_whole_and_with_all_filters(building: Building) -> None:
    request = BuildContext.model_validate(
        {
            "query": "which header?",
            "project": "team-a",
            "inherit": False,
            "types": ["business_rule"],
            "tags": ["auth"],
            "all_tags": ["live"],
            "sources": ["manual"],
            "scope": "/api/live/*",
            "at": "2026-01-02T00:00:00Z",
            "threshold": 0.25,
            "candidates": 200,
        }
    )
    await building.builder.build_context(request)
    ((asked, at_most),) = building.finder.asked
    filters = {"project", "inherit", "types", "tags", "all_tags", "sources", "scope", "at", "query", "threshold"}
    assert asked.model_dump(include=filters) == request.model_dump(include=filters)
    assert (at_most, asked.content_characters, asked.record_use) == (200, 32_000, False)


async def test_the_items_that_are_in_are_noted_as_applied_at_their_places(building: Building) -> None:
    """knowledge-base.md § 记录使用情况: of a context, with its scene."""
    building.finder.hits = distinct(30)
    built = await building.builder.build_context(
        BuildContext(project="team-a", query="which header?", budget_tokens=2_000)
    )
    (used,) = building.notes.used
    assert building.notes.projects == ["team-a"]
    assert 0 < len(built.items) < 30
    assert [(use.id, use.version, use.position) for use in used.uses] == [
        (item.id, item.version, place) for place, item in enumerate(built.items, start=1)
    ]
    assert (used.applied, used.scene, used.request_id, used.query) == (
        True,
        "chat",
        built.request_id,
        "which header?",
    )


async def test_no_more_of_a_content_is_fetched_than_could_have_room_and_enough_to_say_what_it_needs(
    building: Building,
) -> None:
    for budget in (10, 1_000_000):
        await building.builder.build_context(BuildContext(query="x", budget_tokens=budget))
    assert [asked.content_characters for asked, _ in building.finder.asked] == [4_000, 32_000]


@pytest.mark.parametrize(
    ("more", "scene"), [({"use": "chat"}, "chat"), ({"use": "chat", "scene": "support"}, "support")]
)
async def test_the_scene_is_the_one_named_else_the_use(building: Building, more: dict[str, str], scene: str) -> None:
    await building.builder.build_context(BuildContext.model_validate({"query": "x", **more}))
    assert [used.scene for used in building.notes.used] == [scene]


async def test_a_query_that_nothing_answers_is_noted_and_one_without_room_is_not(building: Building) -> None:
    await building.builder.build_context(BuildContext(query="nothing"))
    building.finder.hits = [hit(1)]
    built = await building.builder.build_context(BuildContext(query="no room", budget_tokens=1))
    assert (built.text, built.omitted.over_budget) == ("", 1)
    assert [(used.query, used.uses) for used in building.notes.used] == [("nothing", ())]


async def test_nothing_is_noted_where_that_is_not_wanted(building: Building) -> None:
    building.finder.hits = [hit(1)]
    await building.builder.build_context(BuildContext(query="x", record_use=False))
    assert building.notes.used == []


async def test_tokens_are_those_of_the_tokenizer_that_is_named(building: Building) -> None:
    building.finder.hits = distinct(30)
    counter = byte_level_bpe()
    counter.tokenizer.save(str(building.folder / "mine.json"))
    built = await building.builder.build_context(BuildContext(query="x", budget_tokens=1_500, tokenizer="mine"))
    bound = await building.builder.build_context(BuildContext(query="x", budget_tokens=1_500))
    assert (built.counted_by, bound.counted_by) == ("mine", "upper_bound")
    assert built.tokens == counter.count(built.text) <= 1_500
    assert len(built.items) >= len(bound.items)


async def test_an_unknown_tokenizer_is_told_before_anything_is_searched(building: Building) -> None:
    with pytest.raises(TokenizerUnknownError):
        await building.builder.build_context(BuildContext(query="x", tokenizer="qwen3"))
    assert building.finder.asked == []


async def test_an_answer_of_the_lexical_side_alone_is_told(building: Building) -> None:
    building.finder.hits, building.finder.degraded = [hit(1)], True
    built = await building.builder.build_context(BuildContext(query="x"))
    assert (built.degraded, built.model) == ("lexical", None)


async def test_the_text_and_the_items_are_the_same_context(building: Building) -> None:
    building.finder.hits = [hit(1, scope="/api/live/*", external_id="faq-1"), hit(2, "Other." * 3, score=0.1)]
    built = await building.builder.build_context(BuildContext(query="x", use="chat"))
    assert [item.id for item in built.items] == [id_of(1), id_of(2)]
    first = built.items[0]
    assert (first.external_id, first.scope, first.cut, first.project) == ("faq-1", "/api/live/*", False, "default")
    assert all(item.title in built.text and item.content in built.text for item in built.items)
    assert sum(item.tokens for item in built.items) < built.tokens <= built.budget_tokens
