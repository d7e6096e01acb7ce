import asyncio
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest

from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.learner.items import CreateKnowledge
from skillbus.contracts.message import JSON
from skillbus.gateway.domain.access.principal import OWNER, Principal
from skillbus.gateway.domain.access.rate_limit import STREAMS_AT_ONCE, RateLimiter
from skillbus.gateway.settings import GatewaySettings

from .fakes import KEY, FakeCaller, ReplyT, RequestT, World

CALLER = Principal("a-key", Role.RUNNER, frozenset({"default"}))
OTHER = Principal("other-key", Role.RUNNER, frozenset({"default"}))

LIMITED = GatewaySettings(runs_at_once=1, suggestions_per_hour=1)


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def is_admitted(limiter: RateLimiter, caller: Principal = CALLER) -> bool:
    try:
        limiter.admit_request(caller)
    except RequestError:
        return False
    return True


def test_a_key_has_its_requests_of_a_minute_at_once_and_then_as_time_passes() -> None:
    clock = Clock()
    limiter = RateLimiter(requests_per_minute=60, runs_at_once=1, suggestions_per_hour=2, clock=clock)
    assert [is_admitted(limiter) for _ in range(61)] == [True] * 60 + [False]
    assert is_admitted(limiter, OTHER)
    clock.now_s = 0.9
    assert not is_admitted(limiter)
    clock.now_s = 1.9
    assert [is_admitted(limiter) for _ in range(2)] == [True, False]
    clock.now_s = 10_000.0
    assert [is_admitted(limiter) for _ in range(61)] == [True] * 60 + [False]


def test_a_refused_key_is_told_after_how_many_seconds_it_is_let_in() -> None:
    clock = Clock()
    limiter = RateLimiter(requests_per_minute=6, runs_at_once=1, suggestions_per_hour=2, clock=clock)
    assert all(is_admitted(limiter) for _ in range(6))
    with pytest.raises(RequestError) as refused:
        limiter.admit_request(CALLER)
    assert (refused.value.code, refused.value.details["retry_after_s"]) == (ErrorCode.OVERLOADED, 10)
    clock.now_s = 10.0
    assert is_admitted(limiter)


def test_a_key_suggests_so_many_items_an_hour_besides_its_requests() -> None:
    clock = Clock()
    limiter = RateLimiter(requests_per_minute=1, runs_at_once=1, suggestions_per_hour=2, clock=clock)
    assert is_admitted(limiter)
    for _ in range(2):
        limiter.admit_suggestion(CALLER)
    with pytest.raises(RequestError) as refused:
        limiter.admit_suggestion(CALLER)
    assert (refused.value.code, refused.value.details["retry_after_s"]) == (ErrorCode.OVERLOADED, 1800)
    limiter.admit_suggestion(OTHER)
    clock.now_s = 1800.0
    limiter.admit_suggestion(CALLER)


async def test_a_runner_suggests_pending_items_with_its_key_as_their_source() -> None:
    world = World(LIMITED, key=KEY)
    key = world.add_key(Role.RUNNER, "team")
    body = {"title": "Deploy window", "content": "Tuesdays.", "idempotency_key": "once"}
    async with world.client(key) as client:
        await client.post("/api/knowledge/suggest", json=body)  # nobody answers
        second = await client.post("/api/knowledge/suggest", json=body)
        written = await client.post("/api/knowledge", json=body)
    ((_, asked),) = world.caller.asked
    assert asked == CreateKnowledge.model_validate(
        {**body, "project": "team", "status": "pending", "source": "suggestion", "actor": "http"}
        | {"source_ref": f"key:{key.split('_')[1]}"}
    )
    assert (second.status_code, written.status_code) == (429, 403)


def test_the_owner_has_no_limit() -> None:
    limiter = RateLimiter(requests_per_minute=1, runs_at_once=1, suggestions_per_hour=2, clock=Clock())
    assert all(is_admitted(limiter, OWNER) for _ in range(100))
    with limiter.hold_run(OWNER), limiter.hold_run(OWNER):
        pass


def test_a_key_has_some_runs_at_once_and_each_makes_room_when_it_ends() -> None:
    limiter = RateLimiter(requests_per_minute=1, runs_at_once=1, suggestions_per_hour=1)
    with limiter.hold_run(CALLER), limiter.hold_run(OTHER), pytest.raises(RequestError) as refused:
        limiter.hold_run(CALLER).__enter__()
    assert refused.value.code is ErrorCode.OVERLOADED
    with suppress(RuntimeError), limiter.hold_run(CALLER):
        raise RuntimeError
    with limiter.hold_run(CALLER):
        pass


@dataclass
class HoldingCaller(FakeCaller):
    """Answers nothing before it is told to go on."""

    asked_once: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        request: RequestT,
        *,
        timeout_s: float | None = None,
        content_type: str = JSON,
    ) -> ReplyT:
        self.asked_once.set()
        await self.go_on.wait()
        return await super().call(endpoint, request, timeout_s=timeout_s, content_type=content_type)


async def test_a_run_counts_until_its_reply_is_sent() -> None:
    caller = HoldingCaller()
    world = World(LIMITED, key=KEY, caller=caller)
    run = "/api/skills/calculate/run"
    async with world.client(world.add_key(Role.RUNNER, "default")) as client, asyncio.timeout(5):
        first = asyncio.create_task(client.post(run, json={}))
        await caller.asked_once.wait()
        second = await client.post(run, json={})
        caller.go_on.set()
        third = await client.post(run, json={}) if (await first).status_code == 503 else None
    assert (second.status_code, second.json()["code"], second.headers["Retry-After"]) == (429, "overloaded", "1")
    assert third is not None
    assert third.status_code == 503  # there is no sandbox, but the run was let through to the bus


def test_a_key_follows_only_some_streams_at_once() -> None:
    limiter = RateLimiter(requests_per_minute=1, runs_at_once=1, suggestions_per_hour=1)
    with ExitStack() as held:
        for _ in range(STREAMS_AT_ONCE):
            held.enter_context(limiter.hold_stream(CALLER))
        with limiter.hold_stream(OTHER), limiter.hold_run(CALLER), pytest.raises(RequestError) as refused:
            limiter.hold_stream(CALLER).__enter__()
        assert refused.value.code is ErrorCode.OVERLOADED
    with limiter.hold_stream(CALLER):
        pass
