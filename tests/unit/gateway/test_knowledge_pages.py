"""Pages of the knowledge base, as a browser gets them."""

import asyncio
import re
import threading
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
from markdown_it import MarkdownIt

from skillbus.contracts.errors import ERROR_CLASSES, ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.items import GET_KNOWLEDGE, LIST_KNOWLEDGE, KnowledgeListed, KnowledgeSummary
from skillbus.contracts.learner.knowledge import CONTENT_CHARACTERS, KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    KnowledgeDiffed,
    KnowledgeFieldDiff,
    KnowledgeVersion,
    KnowledgeVersionsListed,
    TextSpan,
)
from skillbus.contracts.retriever.knowledge_search import (
    SEARCH_KNOWLEDGE,
    KnowledgeFound,
    KnowledgeHit,
    SearchKnowledge,
)
from skillbus.gateway.service.pages.languages import LANGUAGES, load_messages
from skillbus.gateway.service.pages.rendering import ASSETS

from .fakes import KEY, World
from .page_visits import EVIL, get_page

ID = "01890000-0000-7000-8000-000000000000"
OTHER = "01890000-0000-7000-8000-000000000001"
PAGE = f"/knowledge/{ID}"
HTML = {"Accept": "text/html"}
VENDORED = Path(__file__).parents[3] / "services/gateway/vendored_assets.toml"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ITEM = KnowledgeItem(
    id=ID,
    title=EVIL,
    content=f"{EVIL}\n\n[x](javascript:alert(3)) ![y](https://evil.example/i.png) **bold**",
    scope="/" + "<b>",
    tags=(EVIL,),
    source_ref=EVIL,
    owner=EVIL,
    version=3,
    digest="0" * 64,
    created_at=NOW,
    updated_at=NOW,
    updated_by=EVIL,
)
SUMMARY = KnowledgeSummary(
    **ITEM.model_dump(include=set(KnowledgeSummary.model_fields) - {"excerpt"}), excerpt=ITEM.content
)
VERSIONS = tuple(
    KnowledgeVersion(version=number, change="updated", at=NOW, by=EVIL, reason=EVIL, item=ITEM) for number in (3, 2, 1)
)
SPANS = (TextSpan(kind="removed", text=EVIL), TextSpan(kind="added", text="new"))
CHANGES = (KnowledgeFieldDiff(field="content", before="a", after="b", spans=SPANS),)
CHANGES += (KnowledgeFieldDiff(field="tags", before=[EVIL], after=[]),)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_KNOWLEDGE, lambda _: KnowledgeListed(items=(SUMMARY,), total=61, next="cursor"))
    made.caller.on(GET_KNOWLEDGE, lambda _: ITEM)
    made.caller.on(GET_KNOWLEDGE_HISTORY, lambda _: KnowledgeVersionsListed(id=ID, versions=VERSIONS, total=3))
    diff = KnowledgeDiffed(id=ID, from_version=2, to_version=3, changes=CHANGES)
    made.caller.on(DIFF_KNOWLEDGE, lambda _: diff)
    return made


@pytest.mark.parametrize("path", ["/knowledge", PAGE, f"{PAGE}/edit", f"{PAGE}/history", "/knowledge/new"])
async def test_no_text_of_an_item_becomes_markup_and_no_script_or_style_is_inline(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert 'href="javascript:' not in answer.text.replace("'", '"')
    assert not re.search(r"<script(?![^>]* src=)|<style|\son[a-z]+=[\"']|\sstyle=", answer.text)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    loaded = re.findall(r'(?:src|<link[^>]* href)="([^"#]+)"', answer.text)
    assert len(loaded) in {4, 5}
    assert not [link for link in loaded if not link.startswith("/assets/")]


@pytest.mark.spec("knowledge-base.md § 知识列表页面")
async def test_a_list_has_its_filters_in_the_address_and_links_to_the_next_page(world: World) -> None:
    path = "/knowledge?text=game&type=business_rule&status=pending&tags=auth&scope=/api/live/*&source=wiki"
    answer = await get_page(world, path)
    asked = world.caller.asked[-1][1].model_dump(exclude_defaults=True, mode="json")
    wanted = {"text": "game", "types": ["business_rule"], "statuses": ["pending"], "tags": ["auth"]}
    assert asked == wanted | {"scope": "/api/live/*", "source": "wiki"}
    assert "61 items" in answer.text
    following = next(link for link in re.findall(r'href="([^"]+)"', answer.text) if "after=cursor" in link)
    await get_page(world, following.replace("&amp;", "&"))
    assert world.caller.asked[-1][1].model_dump(exclude_defaults=True, mode="json") == asked | {"after": "cursor"}


async def test_a_page_behind_the_first_leads_back(world: World) -> None:
    listed = KnowledgeListed(items=(SUMMARY,), total=61, next="on", previous="back")
    world.caller.on(LIST_KNOWLEDGE, lambda _: listed)
    page = (await get_page(world, "/knowledge?tags=auth&after=here")).text
    assert 'href="/knowledge?before=back&amp;tags=auth"' in page
    assert 'data-testid="first-page"' in page
    await get_page(world, "/knowledge?before=back")
    assert world.caller.asked[-1][1].model_dump(exclude_defaults=True) == {"before": "back"}


async def test_a_browser_that_changes_a_filter_gets_the_rows_alone(world: World) -> None:
    whole, rows = await get_page(world, "/knowledge"), await get_page(world, "/knowledge", **{"HX-Request": "true"})
    assert "<html" in whole.text
    assert "<html" not in rows.text
    assert 'data-testid="items"' in rows.text


async def test_markdown_is_shown_as_it_looks_without_its_html(world: World) -> None:
    async with world.client() as client:
        shown = await client.post("/knowledge/preview", json={"content": ITEM.content})
    assert "<strong>bold</strong>" in shown.text
    assert "&lt;script&gt;" in shown.text
    assert "<img" not in shown.text
    assert "javascript" not in "".join(re.findall("<[^>]*>", shown.text))


async def test_a_preview_is_not_longer_than_an_item_so_that_no_caller_holds_up_the_gateway(world: World) -> None:
    async with world.client() as client:
        shown = await client.post("/knowledge/preview", json={"content": "[" * CONTENT_CHARACTERS})
        refused = await client.post("/knowledge/preview", json={"content": "[" * (CONTENT_CHARACTERS + 1)})
    assert (shown.status_code, refused.status_code) == (200, 400)


async def test_other_requests_are_answered_while_markdown_is_rendered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answered = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def render(_: object, text: str) -> str:
        loop.call_soon_threadsafe(begun.set)
        return "in time" if answered.wait(10) else "too late"

    monkeypatch.setattr(MarkdownIt, "render", render)
    async with world.client() as client, asyncio.TaskGroup() as tasks:
        preview = tasks.create_task(client.post("/knowledge/preview", json={"content": "x"}))
        await begun.wait()
        assert (await client.get("/healthz")).status_code == 200
        answered.set()
    assert "in time" in preview.result().text


async def test_a_page_names_the_key_that_its_drafts_belong_to_and_keeps_no_copies_of_lists(world: World) -> None:
    page = await get_page(world, "/knowledge/new")
    assert 'data-caller="owner"' in page.text
    assert "`skillbus draft ${page.caller} `" in (ASSETS / "skillbus.js").read_text("utf-8")
    assert '"historyCacheSize": 0' in page.text


async def test_a_reader_sees_no_buttons_to_change_things_and_cannot_open_the_editor(world: World) -> None:
    reader, editor = world.add_key(Role.READER, "default"), world.add_key(Role.EDITOR, "default")
    assert 'data-testid="edit"' in (await get_page(world, PAGE, editor)).text
    assert 'data-testid="edit"' not in (await get_page(world, PAGE, reader)).text
    assert "New item" not in (await get_page(world, "/knowledge", reader)).text
    refused = await get_page(world, f"{PAGE}/edit", reader)
    assert (refused.status_code, "text/html" in refused.headers["Content-Type"]) == (403, True)


async def test_a_page_is_of_one_project_and_another_one_is_refused(world: World) -> None:
    key = world.add_key(Role.EDITOR, "mine")
    page = await get_page(world, "/knowledge", key)
    assert world.caller.asked[-1][1].model_dump()["project"] == "mine"
    assert 'data-project="mine"' in page.text
    assert f'href="{PAGE}?project=mine"' in page.text
    assert (await get_page(world, "/knowledge?project=other", key)).status_code == 403


async def test_a_page_is_in_the_language_of_the_browser_or_in_the_chosen_one(world: World) -> None:
    assert "知识库" in (await get_page(world, "/knowledge", **{"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"})).text
    assert "知识库" not in (await get_page(world, "/knowledge", **{"Accept-Language": "fr,en;q=0.5,zh;q=0.1"})).text
    chosen = await get_page(world, "/knowledge", **{"Accept-Language": "en", "Cookie": "skillbus-language=zh"})
    assert '<html lang="zh"' in chosen.text


async def test_chosen_items_are_changed_together_each_at_the_version_that_is_shown(world: World) -> None:
    page = (await get_page(world, "/knowledge")).text
    assert f'data-id="{ID}" data-version="3" data-tags="' in page
    assert 'data-each="DELETE /api/knowledge/{id}"' in page
    assert 'data-each="PUT /api/knowledge/{id}" data-append="tags #added-tags"' in page
    assert 'value="approve"' not in page
    pending = SUMMARY.model_copy(update={"status": KnowledgeStatus.PENDING})
    world.caller.on(LIST_KNOWLEDGE, lambda _: KnowledgeListed(items=(pending,), total=1))
    waiting = (await get_page(world, "/knowledge?status=pending")).text
    assert 'data-api="POST /api/knowledge/review"' in waiting
    assert 'value="approve"' in waiting
    assert 'data-each="DELETE' not in waiting
    reader = (await get_page(world, "/knowledge", world.add_key(Role.READER, "default"))).text
    assert "data-each" not in reader
    assert 'type="checkbox"' not in reader


async def test_similar_items_are_shown_while_somebody_writes_and_count_as_no_use(world: World) -> None:
    other = ITEM.model_copy(update={"id": OTHER})
    hits = tuple(KnowledgeHit(item=item, score=0.9) for item in (ITEM, other))
    world.caller.on(SEARCH_KNOWLEDGE, lambda _: KnowledgeFound(request_id="r", took_ms=1.0, results=hits))
    async with world.client() as client:
        body = {"id": ID, "title": "game-id", "content": "x" * CONTENT_CHARACTERS}
        shown = await client.post("/knowledge/similar", json=body)
        nothing = await client.post("/knowledge/similar", json={"title": " "})
    ((name, asked),) = world.caller.asked
    assert isinstance(asked, SearchKnowledge)
    assert (name, asked.record_use, len(asked.query)) == ("search_knowledge", False, 2_000)
    assert f'href="/knowledge/{OTHER}"' in shown.text
    assert ID not in shown.text
    assert "<script" not in shown.text
    assert nothing.text.strip() == ""


async def test_the_editor_goes_on_without_the_search_for_similar_items(world: World) -> None:
    async with world.client() as client:
        shown = await client.post("/knowledge/similar", json={"title": "game-id"})
    assert (shown.status_code, "<code>unavailable</code>" in shown.text) == (200, True)


@pytest.mark.parametrize(
    ("scope", "wanted", "shown"),
    [
        ("/api/live/rooms", "/api/live/rooms/", "the same scope"),
        ("/api/live/*", "/api/live/rooms", "a pattern that covers it"),
        ("/api/live", "/api/live/rooms", "a path above it"),
        ("/api/live/rooms", "/api/*", "within what is asked for"),
        ("", "module:a", "applies to everything"),
        ("/api/live/*", "/api/order", "Would not match."),
        ("/api/li*", "/api/order", "Not a scope: has a segment"),
        ("<b>/..", "/api/order", "Not a scope: has a segment"),
        ("/api", "", ""),
    ],
)
async def test_the_scope_test_says_at_which_level_a_scope_matches(
    world: World, scope: str, wanted: str, shown: str
) -> None:
    page = (await get_page(world, f"/knowledge/scope-match?{urlencode({'scope': scope, 'wanted': wanted})}")).text
    assert (shown in page, bool(page.strip())) == (True, bool(shown))


async def test_who_saves_over_another_change_sees_that_change_word_by_word(world: World) -> None:
    editor = (await get_page(world, f"{PAGE}/edit")).text
    assert f'data-match="3" data-base="3" data-theirs="/knowledge/{ID}/theirs"' in editor
    theirs = (await get_page(world, f"{PAGE}/theirs?from=1")).text
    asked = world.caller.asked[-1][1].model_dump()
    assert (asked["from_version"], asked["to_version"]) == (1, 3)
    assert "<ins>new</ins>" in theirs
    assert "<script>alert" not in theirs
    reader = world.add_key(Role.READER, "default")
    assert (await get_page(world, f"{PAGE}/theirs?from=1", reader)).status_code == 403


async def test_any_two_versions_are_compared_and_older_ones_follow_by_page(world: World) -> None:
    history = KnowledgeVersionsListed(id=ID, versions=VERSIONS, total=90, next=41)
    world.caller.on(GET_KNOWLEDGE_HISTORY, lambda _: history)
    page = (await get_page(world, f"{PAGE}/history?from=7&to=80&before=60")).text
    assert world.caller.asked[-2][1].model_dump()["before"] == 60
    compared = world.caller.asked[-1][1].model_dump()
    assert (compared["from_version"], compared["to_version"]) == (7, 80)
    assert page.count("<option ") == 180
    assert f'href="{PAGE}/history?before=41"' in page
    assert 'data-match="90"' in page


async def test_a_key_of_several_projects_chooses_one_on_the_page(world: World) -> None:
    assert 'data-testid="project"' in (await get_page(world, "/knowledge?project=mine")).text
    bound = world.add_key(Role.EDITOR, "mine")
    assert 'data-testid="project"' not in (await get_page(world, "/knowledge", bound)).text


@pytest.mark.parametrize(("code", "links"), [(ErrorCode.NOT_FOUND, []), (ErrorCode.UNAVAILABLE, [f"{PAGE}?a=b"])])
async def test_an_error_is_a_page_with_its_code_that_offers_another_try_where_it_can_help(
    world: World, code: ErrorCode, links: list[str]
) -> None:
    world.caller.on(GET_KNOWLEDGE, lambda _: RequestError(code, f"No item {EVIL}."))
    answer = await get_page(world, f"{PAGE}?a=b")
    assert answer.status_code == ERROR_CLASSES[code].status
    assert f"<code>{code}</code>" in answer.text
    assert "<script>alert" not in answer.text
    assert re.findall(r'href="([^"]+)" data-testid="again"', answer.text) == links


def test_every_text_of_the_templates_and_of_the_code_is_translated() -> None:
    folder = ASSETS.parent
    texts = set[str]()
    for template in folder.glob("templates/**/*.html"):
        text = template.read_text("utf-8")
        texts |= set(re.findall(r"_\('((?:[^'\\]|\\.)+)'\)", text))
        for counted in re.findall(r"_n\([^,]+, '([^']+)', '([^']+)'", text):
            texts |= set(counted)
    assert len(texts) > 50
    for language in LANGUAGES:
        if language != "en":
            assert not texts - load_messages(language).keys()


def test_chinese_texts_say_you_in_one_way_and_name_one_thing_by_one_word() -> None:
    translated = load_messages("zh")
    assert [text for text in translated.values() if re.search("您|聊天|搜索|回退", text)] == []
    assert translated["Confidence"] == "置信度"


@pytest.mark.parametrize(("total", "shown"), [(0, "0 items"), (1, "1 item"), (2, "2 items")])
async def test_one_thing_is_counted_in_the_singular(world: World, total: int, shown: str) -> None:
    world.caller.on(LIST_KNOWLEDGE, lambda _: KnowledgeListed(items=(SUMMARY,) * total, total=total, next=None))
    assert re.search(rf">{shown}<", (await get_page(world, "/knowledge")).text)


@pytest.mark.parametrize("path", ["/start", "/knowledge"])
async def test_the_first_page_is_small(world: World, path: str) -> None:
    long = SUMMARY.model_copy(update={"title": "题" * 60, "excerpt": "x" * 300, "tags": ("a tag of some length",) * 4})
    world.caller.on(LIST_KNOWLEDGE, lambda _: KnowledgeListed(items=(long,) * 50, total=10_000, next="cursor"))
    page = await get_page(world, path)
    loaded = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.text)
    async with world.client() as client:
        answers = [await client.get(link) for link in loaded]
    assert len(loaded) == 5
    assert page.num_bytes_downloaded + sum(answer.num_bytes_downloaded for answer in answers) <= 150_000
    assert "Content-Encoding" not in page.headers
    assert all("immutable" in answer.headers["Cache-Control"] for answer in answers)


def test_every_file_of_a_package_is_listed_with_its_licence() -> None:
    listed = tomllib.loads(VENDORED.read_text("utf-8"))["package"]
    files = {
        (VENDORED.parent / package["folder"] / file).resolve()
        for package in listed
        for file in package["files"].values()
    }
    assert files == {path for folder in {file.parent for file in files} for path in folder.iterdir()}
    assert ASSETS / "vendor" in {file.parent for file in files}
    assert all(package["integrity"].startswith("sha512-") and package["licence"] for package in listed)
    assert all(any("LICENSE" in source.upper() for source in package["files"]) for package in listed)
