"""The audit log on a real NATS: facts are stored before the answer, stay, and are read in pages."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest
import structlog
from nats.js.api import Header
from nats.js.errors import APIError

from skillbus.common.audit_log.reader import AuditLogReader
from skillbus.common.audit_log.recorder import ActRecorder, AuditStream
from skillbus.common.bus import headers as h
from skillbus.common.bus.codec import encode
from skillbus.common.bus.connection import Bus
from skillbus.common.bus.jetstream import check_jetstream
from skillbus.common.bus.jetstream_batch import BatchRequest, send_batch
from skillbus.common.bus.provision import provision
from skillbus.common.bus.responder import route
from skillbus.common.service import ServiceHealth, serve_routes
from skillbus.contracts.audit_log import AuditDoor, AuditedAct, AuditFact, AuditOutcome, make_audit_subject
from skillbus.contracts.endpoint import Endpoint, make_health_endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.audit_log import AuditEntry, ListAuditLog
from skillbus.contracts.message import Empty, ProjectMessage
from skillbus.contracts.resources import AUDIT_LOG


class Paint(ProjectMessage):
    name: str
    colour: str = ""
    sketch: bool = False


PAINT = Endpoint("painter", "paint", Paint, Empty, "Paint.", act=AuditedAct("name", not_with="sketch"))
LOOK = Endpoint("painter", "look", Empty, Empty, "Look.")


async def paint(request: Paint) -> Empty:
    if request.colour == "plaid":
        raise RequestError(ErrorCode.CONFLICT, "canary: plaid is no colour")
    if request.colour == "void":
        raise ValueError("canary")
    return Empty()


async def look(_: Empty) -> Empty:
    return Empty()


@pytest.fixture
async def painter(bus: Bus) -> AsyncGenerator[Bus]:
    routes = [route(PAINT, paint), route(LOOK, look)]
    async with serve_routes(bus, "painter", routes, ServiceHealth("painter"), lambda _: None):
        yield bus


async def list_all(bus: Bus, **wanted: object) -> list[AuditEntry]:
    facts: list[AuditEntry] = []
    request = ListAuditLog.model_validate(wanted)
    while True:
        page = await AuditLogReader(bus).list_page(request)
        facts += page.facts
        if page.next is None:
            return facts
        request = request.model_copy(update={"before": page.next})


def make_fact(act: str = "paint", **more: object) -> AuditFact:
    usual = {"at": datetime.now(UTC), "act": act, "outcome": "done", "service": "painter", "door": "bus"}
    return AuditFact.model_validate({**usual, **more})


async def store_facts(bus: Bus, facts: list[AuditFact]) -> None:
    await send_batch(bus.client, [BatchRequest(make_audit_subject(fact), encode(fact)) for fact in facts])


async def test_an_act_is_recorded_with_its_caller_before_it_is_answered(painter: Bus) -> None:
    token = h.origin.set(h.Origin(AuditDoor.HTTP, "7k2m9qx4vt", "192.0.2.1"))
    trace = h.traceparent.set(f"00-{'ab' * 16}-{'cd' * 8}-00")
    try:
        await painter.caller.call(PAINT, Paint(project="p", name="wall", colour="canary"))
    finally:
        h.origin.reset(token)
        h.traceparent.reset(trace)
    (fact,) = await list_all(painter)
    assert (fact.act, fact.outcome, fact.code, fact.project) == ("paint", AuditOutcome.DONE, None, "p")
    assert (fact.subjects, fact.count, fact.service) == (("wall",), 1, "painter")
    assert (fact.door, fact.actor, fact.address, fact.trace_id) == ("http", "7k2m9qx4vt", "192.0.2.1", "ab" * 16)
    assert "canary" not in fact.model_dump_json()


async def test_refusals_and_failures_are_recorded_by_their_codes_alone(painter: Bus) -> None:
    for colour, code in (("plaid", ErrorCode.CONFLICT), ("void", ErrorCode.INTERNAL)):
        with pytest.raises(RequestError) as refused:
            await painter.caller.call(PAINT, Paint(name="wall", colour=colour))
        assert refused.value.code is code
    failed, refused_one = await list_all(painter)
    assert (refused_one.outcome, refused_one.code) == (AuditOutcome.REFUSED, ErrorCode.CONFLICT)
    assert (failed.outcome, failed.code) == (AuditOutcome.FAILED, ErrorCode.INTERNAL)
    assert {fact.actor for fact in (failed, refused_one)} == {"test"}, "the name of the connection"
    assert "canary" not in failed.model_dump_json() + refused_one.model_dump_json()


async def test_looking_and_trying_out_are_no_acts(painter: Bus) -> None:
    await painter.caller.call(LOOK, Empty())
    await painter.caller.call(PAINT, Paint(name="wall", sketch=True))
    await painter.caller.call(PAINT, Paint(name="door"))
    assert [fact.subjects for fact in await list_all(painter)] == [("door",)]


async def test_a_fact_cannot_be_deleted_purged_or_replaced(painter: Bus) -> None:
    await painter.caller.call(PAINT, Paint(name="wall"))
    (fact,) = await list_all(painter)
    jetstream, subject = painter.jetstream, make_audit_subject(fact)
    with pytest.raises(APIError):
        await jetstream.delete_msg(AUDIT_LOG.name, fact.sequence)
    with pytest.raises(APIError):
        await jetstream.purge_stream(AUDIT_LOG.name)
    with pytest.raises(APIError):
        await jetstream.publish(subject, b"{}", headers={Header.ROLLUP.value: "sub"})
    config = (await jetstream.stream_info(AUDIT_LOG.name)).config
    with pytest.raises(APIError):
        await jetstream.update_stream(config.evolve(deny_delete=False, deny_purge=False))
    await provision(jetstream)
    assert await list_all(painter) == [fact]
    assert (await check_jetstream(painter.client)).ready, "a stream that cannot be purged is no closed one"


async def test_the_log_is_bounded_and_refusals_have_a_bound_of_their_own(bus: Bus) -> None:
    config = (await bus.jetstream.stream_info(AUDIT_LOG.name)).config
    assert (config.max_bytes, config.max_msgs_per_subject) == (16 * 2**20, 4_000)
    assert config.max_age == 365 * 24 * 3600
    refused = [make_fact(act, outcome="refused", code="forbidden") for act in ("paint", "burn")]
    assert {make_audit_subject(fact) for fact in refused} == {"skillbus.audit.painter.refused"}
    assert make_audit_subject(make_fact("paint")) == "skillbus.audit.painter.paint"


async def test_pages_go_from_the_newest_fact_to_the_oldest_and_filters_find_old_ones(bus: Bus) -> None:
    await store_facts(bus, [make_fact("burn", actor="lin", project="p", subjects=["x", "y"])])
    await store_facts(bus, [make_fact(subjects=[str(number)]) for number in range(600)])
    assert [fact.subjects[0] for fact in await list_all(bus, limit=200)] == [*map(str, range(599, -1, -1)), "x"]
    for wanted in ({"act": "burn"}, {"actor": "lin"}, {"project": "p"}, {"subject": "y"}):
        assert [fact.act for fact in await list_all(bus, **wanted)] == ["burn"], wanted
    assert await list_all(bus, act="burn", actor="owner") == []
    bounded = await AuditLogReader(bus, scanned=300).list_page(ListAuditLog(act="burn"))
    assert (bounded.facts, bounded.next) == ((), 302), "301 positions are left"


async def test_an_empty_log_is_an_empty_page(bus: Bus) -> None:
    assert await list_all(bus) == []


async def test_junk_in_the_stream_hides_no_fact_and_the_subject_says_which_service_wrote(bus: Bus) -> None:
    await bus.jetstream.publish("skillbus.audit.painter.paint", b"junk")
    await bus.jetstream.publish("skillbus.audit.sandbox.paint", encode(make_fact(service="gateway")))
    (fact,) = await list_all(bus)
    assert fact.service == "sandbox"


class BrokenStore:
    async def append_fact(self, fact: AuditFact) -> None:
        raise RequestError(ErrorCode.UNAVAILABLE, "The audit log is not available.")


async def test_an_act_that_cannot_be_recorded_is_answered_as_an_error_and_the_log_has_the_fact() -> None:
    recorder = ActRecorder(BrokenStore(), "painter")
    act = AuditedAct("name")
    with structlog.testing.capture_logs() as logs, pytest.raises(RequestError) as unrecorded:
        await recorder.carry_out("paint", act, Paint(name="wall", colour="canary"), paint)
    assert (unrecorded.value.code, unrecorded.value.retryable) == (ErrorCode.INTERNAL, False)
    assert unrecorded.value.details == {"done": True}
    with structlog.testing.capture_logs() as more, pytest.raises(RequestError) as refused:
        await recorder.carry_out("paint", act, Paint(name="wall", colour="plaid"), paint)
    assert refused.value.code is ErrorCode.CONFLICT
    assert [(it["event"], it["log_level"], it["fact"]["subjects"]) for it in (*logs, *more)] == [
        ("audit_fact_not_recorded", "error", ["wall"])
    ] * 2
    assert "canary" not in repr(logs)


async def test_the_health_of_a_service_warns_until_an_act_is_recorded_again(
    painter: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = make_health_endpoint("painter")

    async def list_checks() -> list[tuple[str, bool, str]]:
        checks = (await painter.caller.call(health, Empty())).checks
        return [(check.name, check.ready, check.warning) for check in checks]

    with monkeypatch.context() as away:
        away.setattr(AuditStream, "append_fact", BrokenStore.append_fact)
        with pytest.raises(RequestError):
            await painter.caller.call(PAINT, Paint(name="wall"))
        ((name, ready, warning),) = await list_checks()
    assert (name, ready, "restart NATS" in warning) == ("audit_log", True, True)
    await painter.caller.call(PAINT, Paint(name="wall"))
    assert await list_checks() == []


async def test_a_fact_waits_for_a_stream_that_is_away_and_is_stored_once(bus: Bus) -> None:
    await bus.jetstream.delete_stream(AUDIT_LOG.name)
    with pytest.raises(RequestError) as away:
        await AuditStream(bus, try_for_s=0).append_fact(make_fact())
    assert away.value.code is ErrorCode.UNAVAILABLE
    await provision(bus.jetstream)
    await AuditStream(bus).append_fact(make_fact())
    assert len(await list_all(bus)) == 1
