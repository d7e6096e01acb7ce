"""Pages of learning, as a browser gets them."""

import re
from datetime import UTC, datetime

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.knowledge import KnowledgeStatus
from skillbus.contracts.learner.learned import (
    ConfidenceInterval,
    EvidenceQuote,
    LearnedFile,
    LearnedKind,
    LearnedStatement,
    LearnedSuite,
    LearnedTemplate,
    ModelUse,
    ReportTotals,
    SuiteRun,
    SuiteTest,
)
from skillbus.contracts.learner.learning_jobs import (
    GET_LEARNING_REPORT,
    LIST_LEARNING_JOBS,
    LIST_LEARNING_SOURCES,
    LearningInputKind,
    LearningJob,
    LearningJobsListed,
    LearningProgress,
    LearningReport,
    LearningSourcesListed,
    LearningStatus,
    LearningSwitch,
    RunContext,
)
from skillbus.contracts.learner.proposals import ProposalKind, ReportedItem

from .fakes import KEY, World
from .page_visits import EVIL, get_page

ID = "01890000-0000-7000-8000-000000000000"
ITEM_ID = "01890000-0000-7000-8000-000000000001"
OTHER = "01890000-0000-7000-8000-000000000002"
EVIL_SOURCE = EVIL.replace("/", "")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = LearningJob(
    id=ID,
    what=LearningInputKind.FILES,
    source=EVIL_SOURCE,
    task=EVIL,
    context=RunContext(run=EVIL, commit=EVIL, branch=EVIL),
    digest="0" * 64,
    status=LearningStatus.DONE,
    progress=LearningProgress(total_files=2, total_bytes=4096),
    new_items=1,
    error=EVIL,
    created_at=NOW,
    actor=EVIL,
)
QUOTE = EvidenceQuote(file=EVIL, line=7, quote=EVIL)
ITEM = ReportedItem(
    kind=LearnedKind.REGRESSION,
    type="test_experience",
    title=EVIL,
    content=EVIL,
    statement=LearnedStatement(subject=EVIL, predicate=EVIL),
    evidence=(QUOTE,),
    confidence=ConfidenceInterval(low=0.7, high=0.9),
    seen=3,
    first_failed=EVIL,
    fixed_by=(EVIL,),
    proposal=ProposalKind.CONFLICT,
    proposal_reason=EVIL,
    item_id=ITEM_ID,
    other=OTHER,
    status=KnowledgeStatus.PENDING,
)
REPORT = LearningReport(
    job=JOB,
    files=(LearnedFile(path=EVIL, status="failed", format="log", error=EVIL),),
    items=(ITEM,),
    templates=(
        LearnedTemplate(
            file=EVIL,
            text=f"{EVIL} <*> gone",
            level="error",
            count=1234,
            first_line=3,
            last_line=90,
            first_time=EVIL,
            last_time=EVIL,
            evidence=(QUOTE,),
        ),
    ),
    suites=(
        LearnedSuite(
            folder=EVIL,
            runs=(SuiteRun(run=EVIL, commit=EVIL, branch=EVIL, started=EVIL, passed=7, failed=1, is_set_aside=True),),
            tests=(SuiteTest(test=EVIL, kind=LearnedKind.FLAKY, outcomes=("both",)),),
        ),
    ),
    totals=ReportTotals(
        files=1,
        items=1,
        templates=1,
        suites=1,
        lines=5678,
        kinds={LearnedKind.REGRESSION: 1},
        redactions={EVIL: 1, "email": 4},
    ),
    model_use=ModelUse(model=EVIL, error=EVIL),
    next=20,
)
RUNNING = JOB.model_copy(update={"status": LearningStatus.RUNNING})
OFF = LearningSwitch(source=EVIL_SOURCE, enabled=False)


@pytest.fixture
def world() -> World:
    made = World(key=KEY)
    made.caller.on(LIST_LEARNING_JOBS, lambda _: LearningJobsListed(jobs=(JOB, RUNNING), next=OTHER))
    made.caller.on(LIST_LEARNING_SOURCES, lambda _: LearningSourcesListed(sources=(OFF,)))
    made.caller.on(GET_LEARNING_REPORT, lambda _: REPORT)
    return made


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "path", ["/learning", *(f"/learning/{ID}?part={it}" for it in ("items", "templates", "suites", "files"))]
)
async def test_no_text_of_a_job_becomes_markup(world: World, path: str, language: str) -> None:
    answer = await get_page(world, path, Accept_Language=language)
    assert answer.status_code == 200, answer.text
    assert "&lt;script&gt;" in answer.text
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert not re.search(r"\son[a-z]+=[\"']", answer.text)


async def test_jobs_are_listed_by_the_filters_of_the_address_with_the_progress_of_open_ones(world: World) -> None:
    page = (await get_page(world, "/learning?status=running&what=logs&source=pay&task=t")).text
    asked = next(request for name, request in world.caller.asked if name == "list_learning_jobs").model_dump()
    assert (asked["status"], asked["what"], asked["source"], asked["task"]) == ("running", "logs", "pay", "t")
    assert page.count('data-testid="job"') == 2
    assert page.count(f'data-follow="/api/learn/jobs/{ID}/events"') == 1
    assert f"status=running&amp;what=logs&amp;source=pay&amp;task=t&amp;after={OTHER}" in page
    assert 'data-api="PUT /api/learn/sources/%3Cscript' in page


async def test_an_installation_without_jobs_says_what_learning_is(world: World) -> None:
    world.caller.on(LIST_LEARNING_JOBS, lambda _: LearningJobsListed(jobs=()))
    assert 'data-testid="empty"' in (await get_page(world, "/learning")).text
    filtered = (await get_page(world, "/learning?status=failed")).text
    assert 'data-testid="nothing"' in filtered
    assert 'data-testid="empty"' not in filtered


async def test_while_the_learner_is_away_the_page_says_so_and_keeps_the_form(world: World) -> None:
    world.caller.on(LIST_LEARNING_JOBS, lambda _: RequestError(ErrorCode.UNAVAILABLE, "No learner is running."))
    answer = await get_page(world, "/learning")
    assert answer.status_code == 200
    assert "No learner is running. (unavailable)" in answer.text
    assert 'data-testid="upload"' in answer.text


async def test_a_running_job_can_be_followed_and_cancelled_by_editors(world: World) -> None:
    world.caller.on(GET_LEARNING_REPORT, lambda _: LearningReport(job=RUNNING))
    page = (await get_page(world, f"/learning/{ID}")).text
    assert "data-reload" in page
    assert "Learning from &lt;script" in page
    assert f'data-api="DELETE /api/learn/jobs/{ID}"' in page
    reader = world.add_key(Role.READER, "default")
    seen = (await get_page(world, f"/learning/{ID}", reader)).text
    assert "data-follow" in seen
    assert "data-api" not in seen


async def test_findings_have_their_evidence_their_fix_and_the_link_to_their_review(world: World) -> None:
    page = (await get_page(world, f"/learning/{ID}?kind=regression&after=20")).text
    asked = next(request for name, request in world.caller.asked if name == "get_learning_report").model_dump()
    assert (asked["part"], asked["kind"], asked["after"]) == ("items", "regression", 20)
    assert f'href="/review/{ITEM_ID}"' in page
    assert 'data-testid="fixed"' in page
    assert "70–90 %" in page
    assert "email 4" in page
    assert "5,678" in page
    approved = ITEM.model_copy(update={"status": KnowledgeStatus.ACTIVE})
    world.caller.on(GET_LEARNING_REPORT, lambda _: REPORT.model_copy(update={"items": (approved,)}))
    assert f'href="/knowledge/{ITEM_ID}"' in (await get_page(world, f"/learning/{ID}")).text


async def test_patterns_mark_their_values_and_flaky_tests_have_their_result_in_each_run(world: World) -> None:
    patterns = (await get_page(world, f"/learning/{ID}?part=templates")).text
    assert '<mark class="value">*</mark> gone' in patterns
    assert "1,234" in patterns
    suites = (await get_page(world, f"/learning/{ID}?part=suites")).text
    assert 'class="outcome-both"' in suites
    assert "set aside" in suites


async def test_a_reader_starts_and_switches_nothing(world: World) -> None:
    reader = world.add_key(Role.READER, "default")
    page = (await get_page(world, "/learning", reader)).text
    assert 'data-testid="upload"' not in page
    assert 'data-testid="switch-on"' not in page
    assert 'data-testid="switch-off"' not in (await get_page(world, f"/learning/{ID}", reader)).text


async def test_names_that_programs_use_are_shown_as_words(world: World) -> None:
    files = (LearnedFile(path="a.log", status="read", format="access_log"),)
    world.caller.on(GET_LEARNING_REPORT, lambda _: REPORT.model_copy(update={"files": files}))
    assert ">access log<" in (await get_page(world, f"/learning/{ID}?part=files")).text
    assert ">访问日志<" in (await get_page(world, f"/learning/{ID}?part=files", Accept_Language="zh")).text
