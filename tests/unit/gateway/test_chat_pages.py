"""Page of chats, as a browser gets it."""

import re
from datetime import UTC, datetime

import pytest

from skillbus.contracts.embedder.registry import (
    LIST_MODELS,
    LIST_PROVIDERS,
    ModelKind,
    ModelRecord,
    ModelsListed,
    ProviderKind,
    ProviderRecord,
    ProvidersListed,
)
from skillbus.contracts.gateway.api_keys import Role
from skillbus.gateway.service.pages.rendering import ASSETS

from .fakes import KEY, World
from .page_visits import get_page

EVIL_MODEL = "<script>alert(1)</script><img/src=x/onerror=alert(2)>\"'"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROVIDER = ProviderRecord(name="scripted", kind=ProviderKind.OPENAI, version=1, created_at=NOW, updated_at=NOW)
MODEL = ModelRecord(
    id="0" * 32,
    provider="scripted",
    name=EVIL_MODEL,
    kind=ModelKind.CHAT,
    is_default=True,
    fingerprint=None,
    version=1,
    created_at=NOW,
    updated_at=NOW,
)


@pytest.fixture
def world() -> World:
    return give_models(World(key=KEY), MODEL)


def give_models(world: World, *models: ModelRecord) -> World:
    world.caller.on(LIST_PROVIDERS, lambda _: ProvidersListed(providers=(PROVIDER,)))
    world.caller.on(LIST_MODELS, lambda _: ModelsListed(models=models))
    return world


async def test_the_models_can_be_chosen_and_their_names_are_no_markup(world: World) -> None:
    answer = await get_page(world, "/chat")
    assert answer.status_code == 200, answer.text
    assert '<option value="&lt;script&gt;' in answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"<script(?![^>]* src=)|<style|\son[a-z]+=[\"']|\sstyle=", answer.text)


async def test_without_a_model_the_page_says_how_to_add_one_and_an_administrator_can(world: World) -> None:
    give_models(world)
    keys = {"all": KEY, "one project": world.add_key(Role.ADMIN, "mine"), "runner": world.add_key(Role.RUNNER, "mine")}
    pages = {name: (await get_page(world, "/chat", key=key)).text for name, key in keys.items()}
    assert all("skillbus providers add ollama" in page for page in pages.values())
    assert not any('data-testid="question"' in page for page in pages.values())
    assert [name for name, page in pages.items() if 'data-testid="add-model"' in page] == ["all"]


async def test_a_new_chat_can_be_begun_only_where_a_model_may_answer(world: World) -> None:
    reader = world.add_key(Role.READER, "mine")
    begins = 'data-new data-testid="new-chat">'
    assert begins in (await get_page(world, "/chat")).text
    assert begins not in (await get_page(world, "/chat", key=reader)).text
    assert begins not in (await get_page(give_models(world), "/chat")).text


async def test_every_kind_of_provider_has_examples_of_its_own(world: World) -> None:
    page = (await get_page(give_models(world), "/chat")).text
    kinds = re.findall(r'<option data-address="([^"]+)" data-model="([^"]+)" data-key="([^"]*)">([a-z]+)<', page)
    assert [kind for *_, kind in kinds] == [kind for kind in ProviderKind if kind is not ProviderKind.LOCAL]
    assert len({address for address, *_ in kinds}) == len(kinds)
    assert f'placeholder="{kinds[0][0]}"' in page


async def test_without_the_registry_chats_go_on_and_the_page_says_what_does_not_answer() -> None:
    answer = await get_page(World(key=KEY), "/chat")
    assert answer.status_code == 200
    assert "<code>unavailable</code>" in answer.text
    assert 'data-testid="question"' in answer.text


async def test_who_may_not_chat_is_told_so(world: World) -> None:
    reader, runner = world.add_key(Role.READER, "mine"), world.add_key(Role.RUNNER, "mine")
    assert 'data-testid="question"' not in (await get_page(world, "/chat", key=reader)).text
    assert "runner" in (await get_page(world, "/chat", key=reader)).text
    assert 'data-testid="question"' in (await get_page(world, "/chat", key=runner)).text
    assert (await get_page(world, "/chat?project=other", runner)).status_code == 403


def test_the_scripts_make_markup_of_nothing_but_the_markdown_that_the_server_rendered() -> None:
    scripts = {name: (ASSETS / name).read_text("utf-8") for name in ("chat.js", "chat_turn.js")}
    for script in scripts.values():
        assert not re.search(r"insertAdjacentHTML|outerHTML|document\.write|eval\(|new Function", script)
    assert "innerHTML" not in scripts["chat.js"]
    assert re.findall(r".*innerHTML.*", scripts["chat_turn.js"]) == ["    part.innerHTML = await response.text();"]
    assert 'callApi("POST", "/knowledge/preview"' in scripts["chat_turn.js"]


def test_chats_are_kept_as_drafts_are_so_that_a_logout_removes_them() -> None:
    script = (ASSETS / "chat.js").read_text("utf-8")
    assert "const CHATS = `${drafts}${page.project} chat `" in script
    assert "const OPTIONS = `${drafts}${page.project} " in script


async def test_calls_of_a_program_have_a_place_below_it_and_the_count_of_those_left_out(world: World) -> None:
    page = (await get_page(world, "/chat")).text
    template = page.partition("<template data-call>")[2].partition("</template>")[0]
    nested = template.partition("<details")[2].partition("</details>")[0]
    assert 'data-calls aria-label="Calls of the program"' in nested
    # Above its calls: a search in the program's element finds its own place first.
    assert "data-more hidden" in nested.partition("data-calls")[0]
    assert 'data-more="{left} further calls of the program are not shown"' in page
    script = (ASSETS / "chat_turn.js").read_text("utf-8")
    assert "this.calls.get(call.program_call_id)" in script
