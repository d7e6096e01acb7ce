"""What callers of the learner meet on the bus."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from skillbus.common.bus.codec import decode
from skillbus.common.bus.connection import Bus
from skillbus.common.runner import StartError
from skillbus.contracts import learner as contract
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorBody, ErrorCode, ErrorDetail, RequestError
from skillbus.contracts.learner.items import (
    ARCHIVE_KNOWLEDGE,
    CREATE_KNOWLEDGE,
    GET_KNOWLEDGE,
    LIST_KNOWLEDGE,
    RESTORE_KNOWLEDGE,
    UPDATE_KNOWLEDGE,
    ArchiveKnowledge,
    CreateKnowledge,
    GetKnowledge,
    ListKnowledge,
    RestoreKnowledge,
    UpdateKnowledge,
)
from skillbus.contracts.learner.knowledge import KnowledgeItem, KnowledgeStatus
from skillbus.contracts.learner.projects import (
    GET_KNOWLEDGE_PROJECT,
    LIST_KNOWLEDGE_AUDIT,
    SET_KNOWLEDGE_PARENT,
    GetKnowledgeProject,
    ListKnowledgeAudit,
    SetKnowledgeParent,
)
from skillbus.contracts.learner.versions import (
    DIFF_KNOWLEDGE,
    GET_KNOWLEDGE_HISTORY,
    REVIEW_KNOWLEDGE,
    DiffKnowledge,
    ListKnowledgeVersions,
    ReviewAction,
    ReviewKnowledge,
)
from skillbus.contracts.message import Empty, Message
from skillbus.learner.domain.errors import KnowledgeUnavailableError
from skillbus.learner.settings import LearnerSettings
from skillbus.learner.wiring import open_learner
from skillbus.sql import sqlite

from .knowledge import open_knowledge

RULE = "business_rule"
DRAFT = {"type": "business_rule", "title": "a title", "content": "some content"}
SCRIPT = "# <script>alert('x')</script>\n\n<img src=x onerror=alert(1)> [a](javascript:alert(1))\n"


async def create(bus: Bus, **fields: object) -> KnowledgeItem:
    request = CreateKnowledge.model_validate({**DRAFT, **fields})
    return (await bus.caller.call(CREATE_KNOWLEDGE, request)).item


async def asked(bus: Bus, endpoint: Endpoint[Message, Message], body: str) -> ErrorDetail:
    """What is said to somebody who sends whatever they like."""
    reply = await bus.client.request(endpoint.subject, body.encode(), timeout=5)
    return decode(ErrorBody, reply.data, "application/json").error


async def test_an_item_lives_its_life_on_the_bus(learner: Bus) -> None:
    call = learner.caller.call
    made = await create(learner, tags=["auth"], status="pending", actor="ann")
    reviewed = await call(REVIEW_KNOWLEDGE, ReviewKnowledge(ids=(made.id, "nobody"), action=ReviewAction.APPROVE))
    assert (reviewed.succeeded, reviewed.failed, reviewed.results[1].code) == (1, 1, ErrorCode.NOT_FOUND)
    changed = await call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=made.id, content="more", expected_version=2))
    assert (changed.item.version, changed.item.status, changed.repeated) == (3, KnowledgeStatus.ACTIVE, False)
    gone = await call(ARCHIVE_KNOWLEDGE, ArchiveKnowledge(id=made.id))
    assert (await call(LIST_KNOWLEDGE, ListKnowledge())).items == ()
    back = await call(RESTORE_KNOWLEDGE, RestoreKnowledge(id=made.id, version=1))
    assert (gone.item.version, back.item.version, back.item.digest) == (4, 5, made.digest)
    assert await call(GET_KNOWLEDGE, GetKnowledge(id=made.id)) == back.item
    assert await call(GET_KNOWLEDGE, GetKnowledge(id=made.id, version=1)) == made
    history = await call(GET_KNOWLEDGE_HISTORY, ListKnowledgeVersions(id=made.id))
    kinds = [version.change.value for version in history.versions]
    assert kinds == ["reverted", "archived", "updated", "approved", "created"]
    diff = await call(DIFF_KNOWLEDGE, DiffKnowledge(id=made.id, from_version=1, to_version=3))
    assert [change.field for change in diff.changes] == ["content", "status"]
    audit = await call(LIST_KNOWLEDGE_AUDIT, ListKnowledgeAudit(id=made.id))
    assert [entry.action for entry in audit.entries] == list(reversed(kinds))
    assert [item.id for item in (await call(LIST_KNOWLEDGE, ListKnowledge(tags=("auth",)))).items] == [made.id]


async def test_projects_inherit_on_the_bus(learner: Bus) -> None:
    call = learner.caller.call
    set_to = await call(SET_KNOWLEDGE_PARENT, SetKnowledgeParent(project="team", parent="company"))
    found = await call(GET_KNOWLEDGE_PROJECT, GetKnowledgeProject(project="team"))
    assert set_to == found
    assert found.parents == ("company",)
    with pytest.raises(RequestError) as refused:
        await call(SET_KNOWLEDGE_PARENT, SetKnowledgeParent(project="company", parent="team"))
    assert refused.value.code is ErrorCode.CONFLICT


async def test_markdown_is_kept_as_it_is(learner: Bus) -> None:
    made = await create(learner, content=SCRIPT, title="<b>bold</b>")
    found = await learner.caller.call(GET_KNOWLEDGE, GetKnowledge(id=made.id))
    assert (found.content, found.title) == (SCRIPT, "<b>bold</b>")


INVALID: tuple[dict[str, object], ...] = (
    {"title": "x" * 10_000},
    {"title": "   "},
    {"title": "a\0b"},
    {"content": "x" * 32_001},
    {"content": "\n \t"},
    {"tags": [f"t{n}" for n in range(1_000)]},
    {"tags": ["x" * 101]},
    {"tags": [""]},
    {"scope": "../*"},
    {"scope": "/a//b"},
    {"scope": "/a/b*"},
    {"scope": "/a" * 200},
    {"type": "Telepathy"},
    {"project": "../other"},
    {"project": "a' OR 1=1"},
    {"priority": 11},
    {"priority": 1e300},
    {"source": "'; DROP TABLE knowledge"},
    {"status": "archived"},
    {"valid_from": "0001-01-01T00:00:00+14:00"},
    {"valid_from": "2026-01-02", "valid_to": "2026-01-01"},
    {"valid_from": 1e30},
    {"external_id": ""},
    {"idempotency_key": "k" * 201},
    {"actor": ""},
)


async def test_what_does_not_follow_the_contract_is_refused_and_nothing_is_kept(learner: Bus) -> None:
    for wrong in INVALID:
        said = await asked(learner, CREATE_KNOWLEDGE, json.dumps({**DRAFT, **wrong}))
        assert said.code is ErrorCode.INVALID_REQUEST, wrong
    assert (await learner.caller.call(LIST_KNOWLEDGE, ListKnowledge(statuses=()))).total == 0


async def test_content_of_five_megabytes_does_not_reach_the_learner(learner: Bus) -> None:
    request = CreateKnowledge.model_construct(type=RULE, title="t", content="x" * 5_000_000)
    with pytest.raises(RequestError) as refused:
        await learner.caller.call(CREATE_KNOWLEDGE, request)
    assert refused.value.code is ErrorCode.PAYLOAD_TOO_LARGE


REFUSED: tuple[tuple[Endpoint[Any, Any], str, ErrorCode], ...] = (
    (GET_KNOWLEDGE, '{"id": "nobody"}', ErrorCode.NOT_FOUND),
    (GET_KNOWLEDGE, "{\"id\": \"x' OR '1'='1\"}", ErrorCode.INVALID_REQUEST),
    (GET_KNOWLEDGE, '{"id": "ID", "version": 2}', ErrorCode.NOT_FOUND),
    (GET_KNOWLEDGE, '{"id": "ID", "version": 99999999999}', ErrorCode.INVALID_REQUEST),
    (GET_KNOWLEDGE, '{"id": "ID", "project": "other"}', ErrorCode.NOT_FOUND),
    (GET_KNOWLEDGE, '{"id": "ID", "version": 1, "as_of": "2026-01-01"}', ErrorCode.INVALID_REQUEST),
    (GET_KNOWLEDGE, '{"id": "ID", "as_of": "1999-01-01"}', ErrorCode.NOT_FOUND),
    (
        UPDATE_KNOWLEDGE,
        '{"id": "ID", "title": "u", "expected_version": 2}',
        ErrorCode.PRECONDITION_FAILED,
    ),
    (UPDATE_KNOWLEDGE, '{"id": "ID", "clear": ["id"]}', ErrorCode.INVALID_REQUEST),
    (UPDATE_KNOWLEDGE, '{"id": "ID", "project": "other", "title": "u"}', ErrorCode.NOT_FOUND),
    (ARCHIVE_KNOWLEDGE, '{"id": "ID", "project": "other"}', ErrorCode.NOT_FOUND),
    (RESTORE_KNOWLEDGE, '{"id": "ID", "version": 7}', ErrorCode.NOT_FOUND),
    (DIFF_KNOWLEDGE, '{"id": "ID", "from_version": 1, "to_version": 2}', ErrorCode.NOT_FOUND),
    (GET_KNOWLEDGE_HISTORY, '{"id": "ID", "project": "other"}', ErrorCode.NOT_FOUND),
    (LIST_KNOWLEDGE, '{"after": "0.1; DROP TABLE knowledge"}', ErrorCode.INVALID_REQUEST),
    (LIST_KNOWLEDGE, '{"limit": 0}', ErrorCode.INVALID_REQUEST),
    (LIST_KNOWLEDGE_AUDIT, '{"after": 9223372036854775808}', ErrorCode.INVALID_REQUEST),
    (CREATE_KNOWLEDGE, "not json", ErrorCode.INVALID_REQUEST),
)


async def test_what_cannot_be_done_is_refused_with_its_code(learner: Bus) -> None:
    made = await create(learner)
    for endpoint, body, code in REFUSED:
        said = await asked(learner, endpoint, body.replace("ID", made.id) if '"id"' in body else body)
        assert (said.code, bool(said.message)) == (code, True), (endpoint.name, body)
    assert await learner.caller.call(GET_KNOWLEDGE, GetKnowledge(id=made.id)) == made


async def test_who_was_too_late_learns_which_version_is_there(learner: Bus) -> None:
    made = await create(learner)
    await learner.caller.call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=made.id, title="u"))
    with pytest.raises(RequestError) as refused:
        await learner.caller.call(UPDATE_KNOWLEDGE, UpdateKnowledge(id=made.id, title="v", expected_version=1))
    assert (refused.value.code, refused.value.details) == (ErrorCode.PRECONDITION_FAILED, {"version": 2})


async def test_a_key_that_is_used_again_is_a_conflict_and_that_is_not_worth_a_retry(learner: Bus) -> None:
    await create(learner, idempotency_key="k")
    with pytest.raises(RequestError) as refused:
        await create(learner, idempotency_key="k", title="another")
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CONFLICT, False)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that waits .2 s for locks."""
    monkeypatch.setattr(sqlite, "_BUSY_S", 0.2)


async def test_a_record_that_cannot_be_written_is_unavailable_and_read_all_the_same(
    impatient: None, learner: Bus, tmp_path: Path
) -> None:
    made = await create(learner)
    file = tmp_path / "knowledge.db"
    other = sqlite3.connect(file, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(create(learner, title="waits"))
        assert await learner.caller.call(GET_KNOWLEDGE, GetKnowledge(id=made.id)) == made
        with pytest.raises(RequestError, match="try again") as refused:
            await writing
        health = await learner.caller.call(contract.HEALTH, Empty())
        other.execute("ROLLBACK")
    finally:
        other.close()
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert [(check.ready, "try again" in check.detail) for check in health.checks] == [(False, True)]
    assert (await create(learner, title="waits no more")).version == 1
    assert (await learner.caller.call(contract.HEALTH, Empty())).ready


async def test_the_learner_is_ready_while_its_record_answers(learner: Bus) -> None:
    health = await learner.caller.call(contract.HEALTH, Empty())
    assert (health.ready, [check.name for check in health.checks]) == (True, ["record"])


async def test_a_record_that_nobody_writes_to_is_tried_until_it_can_be_written_again(
    impatient: None, tmp_path: Path
) -> None:
    async with open_knowledge(f"sqlite:///{tmp_path}/knowledge.db") as knowledge:
        record = knowledge.database
        with closing(sqlite3.connect(tmp_path / "knowledge.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for refused in (knowledge.create(), record.check_record(), record.retry_write()):
                with pytest.raises(KnowledgeUnavailableError, match="try again"):
                    await refused
        assert not await record.retry_write()
        await record.check_record()


@pytest.mark.parametrize("url", ["sqlite:////nowhere/knowledge.db", "postgresql://nobody@127.0.0.1:1/x", "telepathy:"])
async def test_a_learner_whose_record_cannot_be_opened_does_not_start(bus: Bus, tmp_path: Path, url: str) -> None:
    with pytest.raises(StartError, match="the knowledge base cannot be opened"):
        async with open_learner(bus, LearnerSettings(data=tmp_path, database_url=SecretStr(url))):
            pass


async def test_a_learner_does_not_touch_the_record_of_a_newer_one(bus: Bus, tmp_path: Path) -> None:
    settings = LearnerSettings(data=tmp_path / "new folder")
    async with open_learner(bus, settings):
        pass
    file = sqlite3.connect(tmp_path / "new folder" / "knowledge.db")
    with file:
        file.execute("UPDATE knowledge_schema SET version_num = '9999'")
    file.close()
    with pytest.raises(StartError, match="a newer skillbus"):
        async with open_learner(bus, settings):
            pass


async def test_what_was_written_is_there_after_a_restart(bus: Bus, tmp_path: Path) -> None:
    settings = LearnerSettings(data=tmp_path, wait_indexed_s=0)
    async with open_learner(bus, settings):
        made = await create(bus, external_id="faq-1")
    async with open_learner(bus, settings):
        assert await bus.caller.call(GET_KNOWLEDGE, GetKnowledge(id=made.id)) == made
