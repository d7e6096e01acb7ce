"""Lists of items, of versions and of what was done: filters, pages, and what fits a message."""

from datetime import timedelta

import pytest

from skillbus.contracts.learner.items import ListKnowledge, UpdateKnowledge
from skillbus.contracts.learner.knowledge import KNOWN_TYPES, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.projects import GetKnowledgeProject, ListKnowledgeAudit, SetKnowledgeParent
from skillbus.contracts.learner.versions import DiffKnowledge, ListKnowledgeVersions
from skillbus.learner.domain.errors import ProjectsError, UnfitError, UnknownItemError, UnknownVersionError

from .knowledge import BEGIN, Knowledge

MESSAGE_BYTES = 850_000
"""Well below the 1 MiB of the bus."""


async def titles(knowledge: Knowledge, **filters: object) -> list[str]:
    listed = await knowledge.browser.list_items(ListKnowledge.model_validate(filters))
    assert listed.total == len(listed.items)
    return [item.title for item in listed.items]


@pytest.mark.spec("knowledge-base.md § 获取知识列表")
async def test_a_list_has_the_active_items_of_its_project_newest_change_first(knowledge: Knowledge) -> None:
    """knowledge-base.md § 获取知识列表"""
    first = await knowledge.create("first")
    await knowledge.create("second", status="pending")
    await knowledge.create("third")
    await knowledge.create("theirs", project="theirs")
    await knowledge.base.update_item(UpdateKnowledge(id=first.id, priority=9))
    assert await titles(knowledge) == ["first", "third"]
    assert await titles(knowledge, statuses=["pending"]) == ["second"]
    assert await titles(knowledge, statuses=[]) == ["first", "third", "second"]
    assert await titles(knowledge, project="theirs") == ["theirs"]
    assert await titles(knowledge, project="nobodys") == []


@pytest.mark.spec("knowledge-base.md § 按类型筛选知识")
@pytest.mark.spec("knowledge-base.md § 按标签筛选知识")
@pytest.mark.spec("knowledge-base.md § 组合条件筛选")
async def test_a_list_is_filtered_by_type_and_tags(knowledge: Knowledge) -> None:
    """knowledge-base.md § 按类型筛选知识, § 按标签筛选知识, § 组合条件筛选"""
    await knowledge.create("auth rule", tags=("auth",))
    await knowledge.create("both", tags=("game-id", "auth"))
    await knowledge.create("config", type="project_config", tags=("auth",))
    await knowledge.create("none")
    assert await titles(knowledge, types=["project_config"]) == ["config"]
    assert await titles(knowledge, tags=["auth", "game-id"]) == ["config", "both", "auth rule"]
    assert await titles(knowledge, all_tags=["auth", "game-id"]) == ["both"]
    assert await titles(knowledge, types=["business_rule"], tags=["auth", "game-id"]) == ["both", "auth rule"]
    assert await titles(knowledge, types=list(KNOWN_TYPES), tags=["AUTH"]) == []


async def test_a_list_is_filtered_by_scope_source_and_owner(knowledge: Knowledge) -> None:
    await knowledge.create("live", scope="/api/live/*", source="log_learning", owner="team-a")
    await knowledge.create("general")
    assert await titles(knowledge, scope="/api/live/*") == ["live"]
    assert await titles(knowledge, scope="/api/live") == []
    assert await titles(knowledge, scope="") == ["general"]
    assert await titles(knowledge, source="log_learning") == ["live"]
    assert await titles(knowledge, source="manual", owner="team-a") == []
    assert await titles(knowledge, owner="team-a") == ["live"]


async def test_words_are_found_in_title_and_content_whatever_their_case(knowledge: Knowledge) -> None:
    await knowledge.create("Ärger mit GAME-ID", "Kein Zugriff, 100% sicher. STRASSE")
    await knowledge.create("直播电商接口", "缺少 header 时返回 400_1")
    assert await titles(knowledge, text="ärger zugriff") == ["Ärger mit GAME-ID"]
    assert await titles(knowledge, text="game-id straße") == ["Ärger mit GAME-ID"]
    assert await titles(knowledge, text="电商 HEADER") == ["直播电商接口"]
    assert await titles(knowledge, text="ärger header") == []
    assert await titles(knowledge, text="   ") == ["直播电商接口", "Ärger mit GAME-ID"]


async def test_signs_of_patterns_and_of_sql_stand_for_themselves(knowledge: Knowledge) -> None:
    for at, word in enumerate(("0%", "_", "/", "\\", "'", '"', "[a-z]", "*", ":id", "$1", "' OR 1=1 --")):
        project = f"p{at}"
        await knowledge.create("without any of them", "abc d", project=project)
        await knowledge.create(f"with {word}", "100 percent", tags=(word,), owner=word, project=project)
        assert await titles(knowledge, text=word, project=project) == [f"with {word}"]
        assert await titles(knowledge, tags=[word], project=project) == [f"with {word}"]
        assert await titles(knowledge, all_tags=[word], owner=word, project=project) == [f"with {word}"]


async def test_pages_follow_one_another_without_gap_or_repetition_while_others_write(knowledge: Knowledge) -> None:
    knowledge.clock.step = timedelta(0)
    made = [await knowledge.create(f"item {n}") for n in range(25)]
    seen, after = list[str](), None
    for page in range(3):
        listed = await knowledge.browser.list_items(ListKnowledge(limit=10, after=after))
        assert listed.total == 25 + page
        seen += [item.id for item in listed.items]
        after = listed.next
        knowledge.clock.at += timedelta(seconds=1)
        await knowledge.create("written meanwhile")
    assert seen == sorted((item.id for item in made), reverse=True)
    assert after is None


async def test_pages_lead_back_to_the_first_without_gap_or_repetition(knowledge: Knowledge) -> None:
    knowledge.clock.step = timedelta(0)
    made = [await knowledge.create(f"item {n}") for n in range(25)]
    newest_first = sorted((item.id for item in made), reverse=True)
    pages, listed = list[list[str]](), await knowledge.browser.list_items(ListKnowledge(limit=10))
    assert listed.previous is None
    while listed.next is not None:
        listed = await knowledge.browser.list_items(ListKnowledge(limit=10, after=listed.next))
    while listed.previous is not None:
        pages.insert(0, [item.id for item in listed.items])
        listed = await knowledge.browser.list_items(ListKnowledge(limit=10, before=listed.previous))
        assert listed.next is not None
    pages.insert(0, [item.id for item in listed.items])
    assert pages == [newest_first[:10], newest_first[10:20], newest_first[20:]]


async def test_a_list_in_both_directions_is_refused(knowledge: Knowledge) -> None:
    await knowledge.create("one")
    await knowledge.create("two")
    cursor = (await knowledge.browser.list_items(ListKnowledge(limit=1))).next
    with pytest.raises(UnfitError, match="cannot be combined"):
        await knowledge.browser.list_items(ListKnowledge(after=cursor, before=cursor))
    with pytest.raises(UnfitError, match="`before` is not"):
        await knowledge.browser.list_items(ListKnowledge(before=""))


async def test_an_item_that_is_listed_says_what_it_is(knowledge: Knowledge) -> None:
    made = await knowledge.create(content="长" * 400, tags=("b", "a"), external_id="x", scope="module:a")
    [listed] = (await knowledge.browser.list_items(ListKnowledge())).items
    assert listed.excerpt == "长" * 300
    assert listed.model_dump(exclude={"excerpt"}) == made.model_dump(include=set(type(listed).model_fields))


async def test_a_page_fits_a_message_and_the_next_goes_on(knowledge: Knowledge) -> None:
    tags = tuple(f"{n:02}" + "\x01" * 98 for n in range(50))
    made = [await knowledge.create(f"item {n}", tags=tags) for n in range(40)]
    seen, after, pages = list[str](), None, 0
    while pages == 0 or after is not None:
        listed = await knowledge.browser.list_items(ListKnowledge(limit=200, after=after))
        assert len(listed.model_dump_json()) < MESSAGE_BYTES
        seen, after, pages = [*seen, *(item.id for item in listed.items)], listed.next, pages + 1
    assert seen == [item.id for item in reversed(made)]
    assert pages > 1


async def versions_of(knowledge: Knowledge, count: int, content: str) -> KnowledgeItem:
    made = await knowledge.create(content=content)
    for n in range(2, count + 1):
        await knowledge.base.update_item(UpdateKnowledge(id=made.id, content=f"{n}{content}"[:32_000]))
    return made


@pytest.mark.spec("knowledge-base.md § 查看历史版本")
async def test_versions_come_in_pages_that_fit_a_message(knowledge: Knowledge) -> None:
    made = await versions_of(knowledge, 14, "\x01" * 32_000)
    seen, before, pages = list[int](), None, 0
    while pages == 0 or before is not None:
        listed = await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id, before=before))
        assert listed.total == 14
        assert len(listed.model_dump_json()) < MESSAGE_BYTES
        seen, before, pages = [*seen, *(v.version for v in listed.versions)], listed.next, pages + 1
    assert seen == list(range(14, 0, -1))
    assert pages > 2


async def test_a_page_of_versions_holds_no_more_than_was_asked_for(knowledge: Knowledge) -> None:
    made = await versions_of(knowledge, 5, "x")
    listed = await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id, limit=2, before=5))
    assert ([v.version for v in listed.versions], listed.next, listed.total) == ([4, 3], 3, 5)
    last = await knowledge.browser.list_versions(ListKnowledgeVersions(id=made.id, limit=2, before=3))
    assert ([v.version for v in last.versions], last.next) == ([2, 1], None)
    with pytest.raises(UnknownItemError):
        await knowledge.browser.list_versions(ListKnowledgeVersions(id="nobody"))


async def test_what_differs_is_shown_field_by_field_and_word_by_word(knowledge: Knowledge) -> None:
    made = await knowledge.create(title="a title", content="缺少 game-id 时返回 400。", tags=("a",), valid_to=BEGIN)
    await knowledge.base.update_item(
        UpdateKnowledge(id=made.id, content="缺少 game-id 时返回 403。", tags=("a", "b"), clear=("valid_to",))
    )
    diff = await knowledge.browser.diff_versions(DiffKnowledge(id=made.id, from_version=1, to_version=2))
    changes = {change.field: change for change in diff.changes}
    assert list(changes) == ["content", "tags", "valid_to"]
    assert [(span.kind, span.text) for span in changes["content"].spans] == [
        ("same", "缺少 game-id 时返回 "),
        ("removed", "400"),
        ("added", "403"),
        ("same", "。"),
    ]
    assert (changes["tags"].before, changes["tags"].after, changes["tags"].spans) == (["a"], ["a", "b"], ())
    assert changes["valid_to"].after is None
    assert (
        await knowledge.browser.diff_versions(DiffKnowledge(id=made.id, from_version=2, to_version=2))
    ).changes == ()
    with pytest.raises(UnknownVersionError):
        await knowledge.browser.diff_versions(DiffKnowledge(id=made.id, from_version=1, to_version=3))


async def test_the_largest_difference_fits_a_message(knowledge: Knowledge) -> None:
    made = await knowledge.create(title="\x01" * 499 + "a", content="\x01" * 31_999 + "a", tags=("\x01" * 99 + "a",))
    await knowledge.base.update_item(
        UpdateKnowledge(id=made.id, title="\x02" * 499 + "a", content="\x02\x01" * 15_999 + "b", tags=("b",))
    )
    diff = await knowledge.browser.diff_versions(DiffKnowledge(id=made.id, from_version=1, to_version=2))
    assert len(diff.model_dump_json()) < 1024 * 1024 - 10_000


async def parents(knowledge: Knowledge, project: str) -> tuple[str, ...]:
    return (await knowledge.projects.get_project(GetKnowledgeProject(project=project))).parents


async def set_parent(knowledge: Knowledge, project: str, parent: str | None) -> tuple[str, ...]:
    return (
        await knowledge.projects.set_parent(SetKnowledgeParent(project=project, parent=parent, actor="ann"))
    ).parents


async def test_a_project_has_those_above_it_nearest_first(knowledge: Knowledge) -> None:
    assert await parents(knowledge, "team") == ()
    assert await set_parent(knowledge, "team", "division") == ("division",)
    assert await set_parent(knowledge, "division", "company") == ("company",)
    assert await parents(knowledge, "team") == ("division", "company")
    assert await set_parent(knowledge, "team", "company") == ("company",)
    assert await set_parent(knowledge, "team", None) == ()
    assert await set_parent(knowledge, "team", None) == ()
    audit = (await knowledge.projects.list_audit(ListKnowledgeAudit(project="team"))).entries
    assert [(entry.action, entry.actor, entry.reason) for entry in audit] == [
        ("parent_set", "ann", "parent: division"),
        ("parent_set", "ann", "parent: company"),
        ("parent_set", "ann", "parent: None"),
    ]


async def test_projects_are_no_circle_and_have_few_levels(knowledge: Knowledge) -> None:
    for level in range(8):
        await set_parent(knowledge, f"p{level}", f"p{level + 1}")
    assert len(await parents(knowledge, "p0")) == 8
    for project, parent in (("p8", "p0"), ("p3", "p2"), ("p0", "p0"), ("p8", "p9"), ("below", "p0")):
        with pytest.raises(ProjectsError):
            await set_parent(knowledge, project, parent)
    assert await parents(knowledge, "p8") == ()
    assert (await knowledge.browser.list_items(ListKnowledge(statuses=(KnowledgeStatus.ACTIVE,)))).total == 0
