"""Pages of the system and of its administrators, as a browser gets them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from skillbus.contracts import agent, embedder, indexer, learner, retriever, sandbox
from skillbus.contracts.agent.tool_calls import AUDIT_CALLABLE, CallableAudited
from skillbus.contracts.audit_log import AuditDoor, AuditOutcome
from skillbus.contracts.embedder.registry import (
    LIST_MODELS,
    LIST_PROVIDERS,
    ModelRecord,
    ModelsListed,
    ProviderKind,
    ProviderRecord,
    ProvidersListed,
)
from skillbus.contracts.endpoint import Health, HealthCheck
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.audit_log import LIST_AUDIT_LOG, AuditEntry, AuditLogListed, ListAuditLog
from skillbus.contracts.indexer.dead_letters import (
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    DeadLetter,
    DeadLettersListed,
    DeadLetterSummary,
    ListDeadLetters,
)
from skillbus.contracts.indexer.index_switch import (
    LIST_INDEXES,
    IndexesListed,
    IndexModel,
    IndexState,
    IndexSwitch,
    SwitchPhase,
)
from skillbus.contracts.indexer.skills import GET_STATUS, IndexerStatus
from skillbus.contracts.indexer.tools import AUDIT_INDEX, AuditDifference, IndexAudited
from skillbus.contracts.learner.usage import GET_KNOWLEDGE_STATS, KnowledgeStats
from skillbus.gateway.domain.ports import ServiceInstance

from .fakes import KEY, World
from .page_visits import EVIL, get_page

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SERVICES = (agent, embedder, indexer, learner, retriever, sandbox)
PARTS = ("services", "models", "indexes", "waiting", "comparison", "dead-letters")
ROW = r'data-testid="service-([a-z]+)">(.*?)</tr>'
PAGES = ("dead-letters", "dead-letters/7", "audit", "keys")
MODEL = IndexModel(collection="c", fingerprint="f", name=EVIL, dimensions=3)
SWITCH = IndexSwitch(
    id="s",
    phase=SwitchPhase.BACKFILLING,
    source=None,
    target=MODEL,
    done=30,
    total=120,
    started_at=NOW,
    problem=EVIL,
)
LETTER = DeadLetterSummary(
    sequence=7,
    stream="S",
    consumer="learner-uses",
    subject=EVIL,
    project=EVIL,
    error=EVIL,
    stored_at=NOW,
    size_bytes=9,
)
FACT = AuditEntry(
    sequence=9,
    at=NOW,
    act="install_skill",
    outcome=AuditOutcome.REFUSED,
    code=ErrorCode.FORBIDDEN,
    project="default",
    subjects=(EVIL,),
    count=3,
    details={"fields": (EVIL, "b"), "status": EVIL},
    service="indexer",
    door=AuditDoor.HTTP,
    actor=EVIL,
    address=EVIL,
)
RECORDED = {"version": 1, "created_at": NOW, "updated_at": NOW}


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    on = made.caller.on
    for module in SERVICES:
        check = HealthCheck(name="store", ready=module is not sandbox, detail=EVIL)
        health = Health(service=module.SERVICE, ready=module is not sandbox, checks=(check,))
        on(module.HEALTH, lambda _, health=health: health)
    on(GET_STATUS, lambda _: IndexerStatus(skills=2, waiting=4, points=1, collection=None, model=None))
    model = ModelRecord(
        id="m", provider="local", name="a<b>", is_default=True, fingerprint="f", dimensions=3, **RECORDED
    )
    on(LIST_MODELS, lambda _: ModelsListed(models=(model,)))
    provider = ProviderRecord(
        name="far",
        kind=ProviderKind.OPENAI,
        base_url="https://user:hunter2@models.example/v1?token=hunter3",
        api_key="env:FAR_KEY",
        **RECORDED,
    )
    on(LIST_PROVIDERS, lambda _: ProvidersListed(providers=(provider,)))
    on(LIST_INDEXES, lambda _: IndexesListed(indexes=(IndexState(alias="tools", live=MODEL, switch=SWITCH),)))
    counts = {"total": 0, "by_status": {}, "by_type": {}, "unindexed": 17, "searches": 0, "contexts": 0}
    on(GET_KNOWLEDGE_STATS, lambda _: KnowledgeStats(project="default", **counts))
    differs = AuditDifference(kind="not_indexed", ids=(EVIL,), count=1)
    on(AUDIT_INDEX, lambda _: IndexAudited(catalogued=3, inactive=0, indexed=2, differences=(differs,)))
    on(AUDIT_CALLABLE, lambda _: CallableAudited(callable=1, catalogued=1, silent=(EVIL,)))
    on(LIST_DEAD_LETTERS, lambda _: DeadLettersListed(dead_letters=(LETTER,), total=3, next=7))
    on(GET_DEAD_LETTER, lambda _: DeadLetter(**dict(LETTER), body=EVIL))
    on(LIST_AUDIT_LOG, lambda _: AuditLogListed(facts=(FACT,), next=9))
    return made


@pytest.mark.parametrize("path", [*(f"/system/parts/{part}" for part in PARTS), *(f"/system/{page}" for page in PAGES)])
async def test_nothing_that_is_shown_becomes_markup(world: World, path: str) -> None:
    answer = await get_page(world, path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"\son[a-z]+=[\"']|\sstyle=", answer.text)


async def test_the_page_asks_no_service_and_names_a_part_for_each(world: World) -> None:
    page = (await get_page(world, "/system?project=shop")).text
    assert world.caller.asked == []
    parts = re.findall(r'hx-get="/system/parts/([a-z-]+)\?project=shop"', page)
    assert tuple(parts) == PARTS
    at_once = re.findall(r'hx-get="/system/parts/([a-z-]+)\?project=shop" hx-trigger="load"', page)
    assert set(PARTS) - set(at_once) == {"comparison"}


@pytest.mark.parametrize("part", PARTS)
async def test_a_service_that_is_down_costs_its_part_alone(world: World, part: str) -> None:
    world.caller.handlers.clear()
    answer = await get_page(world, f"/system/parts/{part}")
    assert answer.status_code == 200
    if part == "services":
        assert answer.text.count('class="state bad"') == len(SERVICES)
    else:
        assert 'data-testid="problem"' in answer.text
        assert "<code>unavailable</code>" in answer.text


async def test_each_service_shows_its_instances_their_versions_and_when_they_started(world: World) -> None:
    later = NOW + timedelta(hours=1)
    world.discovery.found = (
        ServiceInstance("agent", "1.3.0", later),
        ServiceInstance("agent", "1.2.0", NOW),
        ServiceInstance("learner", "1.2.0", NOW),
    )
    page = (await get_page(world, "/system/parts/services")).text
    rows = {name: re.findall(r"<td[^>]*>(.*?)</td>", row) for name, row in re.findall(ROW, page, re.DOTALL)}
    times = {name: re.findall(r'datetime="([^"]+)"', row[4]) for name, row in rows.items()}
    assert rows["agent"][2:4] == ["1.2.0, 1.3.0", "2"]
    assert times["agent"] == [NOW.isoformat(), later.isoformat()]
    assert (rows["learner"][2:4], times["learner"]) == (["1.2.0", "1"], [NOW.isoformat()])
    assert rows["indexer"][2:5] == ["", "0", ""]
    assert rows["nats"][2:5] == ["", "", ""]


async def test_services_that_cannot_be_counted_still_show_their_state(world: World) -> None:
    world.discovery.failure = RequestError(ErrorCode.UNAVAILABLE, "The bus is not available.")
    page = (await get_page(world, "/system/parts/services")).text
    assert 'class="state good"' in page
    assert "<code>unavailable</code>" in page
    assert not re.search(r">\d+</td>", page)


async def test_one_of_two_services_that_answer_is_shown(world: World) -> None:
    del world.caller.handlers[GET_STATUS.subject]
    page = (await get_page(world, "/system/parts/waiting")).text
    assert "<dd>17</dd>" in page
    assert "<dd>?</dd>" in page
    assert "<code>unavailable</code>" in page


async def test_a_running_switch_shows_its_progress_and_the_page_follows_it(world: World) -> None:
    assert 'data-live="/api/indexes/events"' in (await get_page(world, "/system")).text
    page = (await get_page(world, "/system/parts/indexes")).text
    assert '<progress max="120" value="30"' in page
    assert 'data-switch="s backfilling ' in page
    assert 'data-api="POST /api/indexes/tools/rollback"' in page
    ended = SWITCH.model_copy(update={"phase": SwitchPhase.DONE})
    world.caller.on(LIST_INDEXES, lambda _: IndexesListed(indexes=(IndexState(alias="t", live=None, switch=ended),)))
    page = (await get_page(world, "/system/parts/indexes")).text
    assert "<progress" not in page
    assert "rollback" not in page


async def test_a_provider_shows_its_host_and_no_reference_to_its_key(world: World) -> None:
    page = (await get_page(world, "/system/parts/models")).text
    assert "models.example" in page
    assert "hunter" not in page
    assert "FAR_KEY" not in page
    assert "a&lt;b&gt;" in page


async def test_each_role_sees_what_it_may_do(world: World) -> None:
    keys = {
        "reader": world.add_key(Role.READER, "default"),
        "editor": world.add_key(Role.EDITOR, "*"),
        "admin of a project": world.add_key(Role.ADMIN, "default"),
        "admin": world.add_key(Role.ADMIN, "*"),
    }
    tabs = {
        who: re.findall(r'data-testid="tab-([a-z-]+)"', (await get_page(world, "/system", key)).text)
        for who, key in keys.items()
    }
    assert tabs["reader"] == tabs["editor"] == ["overview"]
    assert tabs["admin of a project"] == ["overview", "audit", "keys"]
    assert tabs["admin"] == ["overview", "dead-letters", "audit", "keys"]
    paths = [f"/system/{page}" for page in PAGES]
    codes = {who: [(await get_page(world, path, key)).status_code for path in paths] for who, key in keys.items()}
    assert codes["reader"] == codes["editor"] == [403] * 4
    assert codes["admin of a project"] == [403, 403, 200, 200]
    assert codes["admin"] == [200] * 4
    repairs = {
        who: "POST /api/audit" in (await get_page(world, "/system/parts/comparison", key)).text
        for who, key in keys.items()
    }
    assert repairs == {"reader": False, "editor": False, "admin of a project": True, "admin": True}
    providers = {
        who: "models.example" in (await get_page(world, "/system/parts/models", key)).text for who, key in keys.items()
    }
    assert [who for who, shown in providers.items() if shown] == ["admin"]


async def test_the_audit_log_has_its_filters_in_the_address_and_a_pager(world: World) -> None:
    page = (await get_page(world, "/system/audit?act=install_skill&actor=owner&subject=x&before=50")).text
    assert world.caller.asked[-1][1] == ListAuditLog(act="install_skill", actor="owner", subject="x", before=50)
    assert "act=install_skill&amp;actor=owner&amp;subject=x&amp;before=9" in page
    assert "forbidden" in page


async def test_a_key_of_a_project_sees_the_acts_of_its_project(world: World) -> None:
    await get_page(world, "/system/audit", world.add_key(Role.ADMIN, "shop"))
    assert world.caller.asked[-1][1] == ListAuditLog(project="shop")


async def test_a_dead_letter_can_be_delivered_again_or_deleted(world: World) -> None:
    listed = (await get_page(world, "/system/dead-letters?consumer=learner-uses&after=3")).text
    assert world.caller.asked[-1][1] == ListDeadLetters(consumer="learner-uses", after=3, limit=50)
    assert 'href="/system/dead-letters/7"' in listed
    assert "consumer=learner-uses&amp;after=7" in listed
    page = (await get_page(world, "/system/dead-letters/7")).text
    assert 'data-api="POST /api/dead-letters/7/replay"' in page
    assert 'data-api="DELETE /api/dead-letters/7"' in page


async def test_the_list_of_keys_has_no_secret_and_offers_to_revoke_valid_ones(world: World) -> None:
    valid = world.add_key(Role.READER, "default")
    world.add_key(Role.EDITOR, "default", expires_at=datetime.now(UTC) - timedelta(days=1))
    world.add_key(Role.ADMIN, "default", revoked_at=datetime.now(UTC))
    answer = await get_page(world, "/system/keys")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.text.count('data-testid="key-row"') == 3
    assert answer.text.count('data-testid="revoke"') == 1
    for record in world.key_store.records.values():
        assert record.id in answer.text
        assert record.secret_sha256 not in answer.text
    assert valid not in answer.text
    assert 'data-api="POST /api/keys" data-reveal="key"' in answer.text
