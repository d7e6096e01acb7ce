"""Turns of chats on a real bus, with a scripted model behind a real HTTP server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillbus.agent.adapters.bus_turns import BusTurnLines
from skillbus.agent.domain.chat.approval_desk import DeskAnswer
from skillbus.agent.settings import AgentSettings
from skillbus.agent.wiring import open_agent
from skillbus.common.bus import headers
from skillbus.common.bus.connection import Bus, confirm_subscriptions
from skillbus.common.bus.events import subscribe_to_feed
from skillbus.common.bus.responder import Responder, route
from skillbus.common.testing import WAIT_S, eventually
from skillbus.contracts.agent.approvals import DECIDE_CALL, ApprovalOutcome, DecideCall
from skillbus.contracts.agent.chat import Chat, TurnEnded
from skillbus.contracts.agent.turns import (
    CANCEL_TURN,
    CHAT,
    FOLLOW_TURN,
    TURN_ADVANCED,
    TURN_ENDED,
    FollowTurn,
    TurnEvent,
    TurnEventKind,
    TurnFact,
    TurnSelector,
)
from skillbus.contracts.embedder.chat_models import FIND_CHAT_MODELS, ChatModelsFound, FindChatModels
from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.tool_functions import (
    DESCRIBE_TOOLS,
    MEASURE_TOOLS,
    DescribeTools,
    MeasureTools,
    ToolsDescribed,
    ToolsMeasured,
)
from skillbus.contracts.indexer.tools import CatalogueTool
from skillbus.contracts.retriever.tool_search import SEARCH_TOOLS, SearchTools, ToolHit, ToolsFound

from ...scripted_answers import Answer, Call
from ...scripted_upstream import Exchange, ScriptedUpstream, hang_after, play_in_order, serve_upstream
from .catalogue import AgentCatalogue
from .chat_models.conftest import make_chat_model
from .conftest import Agent

TURN = "0123456789abcdef" * 2
QUESTION = {"messages": [{"role": "user", "content": "What is 17 * 23?"}]}
CALCULATE = "builtin:calculate"
CALL = Call("builtin__calculate", {"expression": "17 * 23"})


@dataclass(slots=True)
class Surroundings:
    """What the agent asks of others in a turn: a chat model, and tools that fit."""

    upstream: ScriptedUpstream
    kind: ProviderKind = ProviderKind.OPENAI
    found: list[str] = field(default_factory=lambda: ["builtin:calculate"])

    async def find_models(self, request: FindChatModels) -> ChatModelsFound:
        if request.model == "no-such":
            raise RequestError(ErrorCode.NOT_FOUND, "There is no chat model 'no-such'.")
        return ChatModelsFound(models=(make_chat_model(f"{self.upstream.url}/v1", self.kind, api_key=None),))

    async def search(self, _: SearchTools) -> ToolsFound:
        hits = [
            ToolHit(id=one, name=one, description="", score=1, cosine=None, tool_type="builtin") for one in self.found
        ]
        return ToolsFound(results=tuple(hits), took_ms=0)

    async def measure(self, _: MeasureTools) -> ToolsMeasured:
        return ToolsMeasured(tools=5_511, definition_bytes=4_000_000)

    async def describe(self, request: DescribeTools) -> ToolsDescribed:
        functions = [{"id": one, "description": "Calculate.", "parameters": {"type": "object"}} for one in request.ids]
        return ToolsDescribed.model_validate({"functions": functions})


@pytest.fixture
async def around(bus: Bus) -> AsyncGenerator[Surroundings]:
    async with serve_upstream(lambda _: Answer("Hello.")) as upstream:
        surroundings = Surroundings(upstream)
        responder = Responder(bus.client, "retriever", "0.0.0", bus.metrics)
        for one in (
            route(FIND_CHAT_MODELS, surroundings.find_models),
            route(SEARCH_TOOLS, surroundings.search),
            route(DESCRIBE_TOOLS, surroundings.describe),
            route(MEASURE_TOOLS, surroundings.measure),
        ):
            await responder.start(one)
        yield surroundings
        await responder.drain()


async def chat(bus: Bus, **given: object) -> TurnEnded:
    return await bus.caller.call(CHAT, Chat.model_validate({**QUESTION, **given}))


async def read_feed(
    bus: Bus, turn_id: str, entered: asyncio.Event, last: TurnEventKind = TurnEventKind.ENDED
) -> list[TurnEvent]:
    events = list[TurnEvent]()
    async with subscribe_to_feed(bus.client, TURN_ADVANCED, turn_id) as feed:
        await confirm_subscriptions(bus.client)
        entered.set()
        async for event in feed:
            events.append(event)
            if event.kind in {last, TurnEventKind.FAILED}:
                break
    return events


@pytest.mark.spec("tool-system.md § ReActStrategy")
@pytest.mark.spec("tool-system.md § 流程 Step 3 工具执行")
async def test_a_turn_finds_and_calls_a_tool_and_its_feed_tells_each_step(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    around.upstream.script = play_in_order(Answer("Let me see.", [CALL]), Answer(["It is ", "391."]))
    entered = asyncio.Event()
    reading = asyncio.create_task(read_feed(bus, TURN, entered))
    await entered.wait()

    ended = await chat(bus, turn_id=TURN, stream=True)
    async with asyncio.timeout(WAIT_S):
        events = await reading

    assert ended.message.content == "Let me see.\n\nIt is 391."
    assert [call.text for step in ended.steps for call in step.calls] == ["391"]
    assert "391" in around.upstream.received[1].results[0]
    assert "builtin__calculate" in around.upstream.received[0].tool_names
    kinds = [event.kind.value for event in events]
    assert [kind for kind in kinds if kind != "text"] == ["begun", "calling", "called", "step", "ended"]
    assert "".join(event.text for event in events) == ended.message.content
    assert events[-1].ended == ended


async def test_usage_compares_what_was_shown_with_the_whole_catalogue(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    ended = await eventually(lambda: chat(bus), lambda one: one.disclosure is not None and one.disclosure.all_tools)
    assert ended.disclosure is not None
    assert (ended.disclosure.all_tools, ended.disclosure.all_tokens) == (5_511, 1_000_000)
    assert ended.disclosure.shown_tokens < 0.02 * 1_000_000


async def test_a_turn_with_a_model_of_anthropic_sends_its_thoughts_back_with_the_results(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    around.kind = ProviderKind.ANTHROPIC
    around.upstream.script = play_in_order(Answer("Let me see.", [CALL], thinking="17 times 23"), Answer("It is 391."))
    ended = await chat(bus)
    assert ended.message.content == "Let me see.\n\nIt is 391."
    assert ended.message.upstream is None
    _, thought, result = around.upstream.received[1].body["messages"]
    assert [block["type"] for block in thought["content"]] == ["thinking", "text", "tool_use"]
    assert thought["content"][0]["signature"] == "signed 17 times 23"
    assert result["content"][0]["tool_use_id"] == thought["content"][2]["id"]
    assert "391" in around.upstream.received[1].results[0]


async def test_a_turn_that_ended_can_be_followed_from_any_message_on(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    around.upstream.script = play_in_order(Answer(("It ", "is ", "391.")))
    ended = await chat(bus, turn_id=TURN)
    whole = (await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN))).events
    assert [event.kind.value for event in whole] == ["begun", "text", "ended"]
    assert whole[-1].ended == ended
    texts = list[str]()
    for number in range(whole[0].number, whole[1].number):
        texts.append((await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN, after=number))).events[0].text)
    assert texts == ["It is 391.", "is 391.", "391."]
    rest = (await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN, after=whole[1].number))).events
    assert rest == whole[2:]
    nothing = await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN, after=whole[-1].number))
    assert nothing.events == ()


async def test_a_turn_of_another_project_cannot_be_followed(bus: Bus, agent: Agent, around: Surroundings) -> None:
    await chat(bus, turn_id=TURN)
    with pytest.raises(RequestError) as raised:
        await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN, project="other"))
    assert raised.value.code is ErrorCode.NOT_FOUND


async def test_cancelling_a_turn_ends_the_request_to_the_model(bus: Bus, agent: Agent, around: Surroundings) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        asked.set()
        await hang_after()(exchange)
        gone.set()

    around.upstream.script = lambda _: hang
    turn = asyncio.create_task(chat(bus, turn_id=TURN))
    async with asyncio.timeout(WAIT_S):
        await asked.wait()
        other = await bus.caller.call(CANCEL_TURN, TurnSelector(turn_id=TURN, project="other"))
        assert not other.ending
        assert (await bus.caller.call(CANCEL_TURN, TurnSelector(turn_id=TURN))).ending
        with pytest.raises(RequestError) as raised:
            await turn
        await gone.wait()
    assert raised.value.code is ErrorCode.CANCELLED
    events = (await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN))).events
    assert (events[-1].kind, events[-1].code) == (TurnEventKind.FAILED, ErrorCode.CANCELLED)
    assert not (await bus.caller.call(CANCEL_TURN, TurnSelector(turn_id=TURN))).ending


async def test_a_second_turn_with_an_id_is_refused(bus: Bus, agent: Agent, around: Surroundings) -> None:
    await chat(bus, turn_id=TURN)
    with pytest.raises(RequestError) as raised:
        await chat(bus, turn_id=TURN)
    assert raised.value.code is ErrorCode.CONFLICT
    whole = (await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN))).events
    assert whole[-1].kind is TurnEventKind.ENDED


async def test_an_unknown_model_is_an_error_before_the_first_step(bus: Bus, agent: Agent, around: Surroundings) -> None:
    with pytest.raises(RequestError) as raised:
        await chat(bus, model="no-such")
    assert raised.value.code is ErrorCode.NOT_FOUND
    assert around.upstream.received == []


async def test_steps_and_the_end_of_a_turn_are_events_on_the_bus(bus: Bus, agent: Agent, around: Surroundings) -> None:
    subscription = await bus.client.subscribe("skillbus.evt.turn.>")
    await confirm_subscriptions(bus.client)
    around.upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    await chat(bus, turn_id=TURN)
    subjects, last = list[str](), None
    async with asyncio.timeout(WAIT_S):
        while last is None or last.subject != TURN_ENDED.subject(TURN):
            last = await subscription.next_msg()
            subjects.append(last.subject.removeprefix("skillbus.evt.turn.").removesuffix(f".{TURN}"))
    assert subjects == ["begun", "stepped", "stepped", "ended"]
    fact = TurnFact.model_validate_json(last.data)
    assert (fact.step, fact.outcome, fact.usage.total_tokens) == (2, "stop", 30)


async def test_each_step_and_the_turn_are_spans_with_a_begin_and_a_duration(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    subscription = await bus.client.subscribe("skillbus.evt.turn.>")
    await confirm_subscriptions(bus.client)
    around.upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    await chat(bus, turn_id=TURN)
    async with asyncio.timeout(WAIT_S):
        begun, *steps, ended = [TurnFact.model_validate_json((await subscription.next_msg()).data) for _ in range(4)]
    assert (begun.span_id, begun.duration_ms, begun.parent_span_id) == (ended.span_id, None, "")
    assert len({fact.span_id for fact in (*steps, ended)}) == 3
    assert {step.parent_span_id for step in steps} == {ended.span_id}
    assert ended.began_at is not None
    assert ended.duration_ms is not None
    assert all(step.began_at is not None and step.began_at >= ended.began_at for step in steps)
    assert 0 < sum(step.duration_ms or 0 for step in steps) <= ended.duration_ms


async def test_a_turn_that_fails_ends_its_span(bus: Bus, agent: Agent, around: Surroundings) -> None:
    subscription = await bus.client.subscribe(TURN_ENDED.subject("*"))
    await confirm_subscriptions(bus.client)
    with pytest.raises(RequestError):
        await chat(bus, model="no-such")
    async with asyncio.timeout(WAIT_S):
        fact = TurnFact.model_validate_json((await subscription.next_msg()).data)
    assert (fact.outcome, len(fact.span_id)) == ("not_found", 16)
    assert fact.duration_ms is not None


async def test_facts_about_a_turn_carry_the_trace_of_its_request(bus: Bus, agent: Agent, around: Surroundings) -> None:
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    subscription = await bus.client.subscribe("skillbus.evt.turn.>")
    await confirm_subscriptions(bus.client)
    around.upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    token = headers.traceparent.set(trace)
    try:
        await chat(bus, turn_id=TURN)
    finally:
        headers.traceparent.reset(token)
    async with asyncio.timeout(WAIT_S):
        facts = [await subscription.next_msg() for _ in range(4)]
    assert [(fact.headers or {}).get("traceparent") for fact in facts] == [trace] * 4


async def test_the_callers_tool_ends_the_turn_and_the_next_one_knows_what_came_before(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    around.upstream.script = play_in_order(
        Answer((), [CALL]), Answer((), [Call("get_weather", {"city": "Oslo"})]), Answer("Rain, and 391.")
    )
    first = await chat(bus, tools=tools)
    assert first.finish_reason == "tool_calls"
    (part,) = first.message.tool_calls
    messages = [
        *QUESTION["messages"],
        first.message.model_dump(mode="json"),
        {"role": "tool", "tool_call_id": part.id, "content": "rain"},
    ]
    second = await chat(bus, messages=messages, tools=tools)
    assert second.message.content == "Rain, and 391."
    roles = [message["role"] for message in around.upstream.received[2].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]


async def test_a_hundred_turns_at_once_all_end(bus: Bus, agent: Agent, around: Surroundings) -> None:
    around.upstream.script = lambda received: Answer("391.") if received.results else Answer((), [CALL])
    async with asyncio.timeout(WAIT_S * 12):
        ended = await asyncio.gather(*(chat(bus) for _ in range(100)))
    assert {one.message.content for one in ended} == {"391."}


async def test_an_agent_that_stops_ends_its_turns_with_an_error_that_says_so(
    bus: Bus, catalogue: AgentCatalogue, around: Surroundings, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        asked.set()
        await hang_after()(exchange)

    around.upstream.script = lambda _: hang
    async with open_agent(bus, AgentSettings(data=tmp_path / "agent", private_addresses="127.0.0.1")):
        turn = asyncio.create_task(chat(bus))
        async with asyncio.timeout(WAIT_S):
            await asked.wait()
    with pytest.raises(RequestError, match="The agent stops") as raised:
        await turn
    assert (raised.value.code, raised.value.retryable) == (ErrorCode.UNAVAILABLE, True)


async def mark_calculate(agent: Agent) -> None:
    """Mark the tool for approval, once it is in the catalogue."""
    key = ("default", CALCULATE)

    async def find_tool() -> CatalogueTool | None:
        return agent.catalogue.tools.get(key)

    known = await eventually(find_tool, lambda one: one is not None)
    assert known is not None
    agent.catalogue.tools[key] = known.model_copy(update={"requires_approval": True, "approval_mark": True})


async def test_a_call_that_waits_is_decided_by_whoever_started_its_turn_or_anybody_of_the_project(
    bus: Bus, agent: Agent, around: Surroundings
) -> None:
    await mark_calculate(agent)
    around.upstream.script = play_in_order(Answer((), [CALL]), Answer("It is 391."))
    turn = asyncio.create_task(chat(bus, turn_id=TURN, approvals="wait"))
    async with asyncio.timeout(WAIT_S):
        events, after = list[TurnEvent](), -1
        while TurnEventKind.APPROVAL_REQUIRED not in {event.kind for event in events}:
            with suppress(RequestError):  # the turn may not have begun
                page = await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN, after=after, wait_s=1))
                events += page.events
                after = page.last
        waiting = events[-1].approval
        assert waiting is not None
        decision = DecideCall(turn_id=TURN, call_id=waiting.call_id, approved=True)
        refused = list[ErrorCode]()
        for changed in ({"started_by": "somebody"}, {"project": "other"}, {"call_id": "other"}, {"turn_id": "1" * 32}):
            with pytest.raises(RequestError) as raised:
                await bus.caller.call(DECIDE_CALL, decision.model_copy(update=changed))
            refused.append(raised.value.code)
        # As another replica passes it on.
        elsewhere = BusTurnLines(bus)
        assert await elsewhere.decide(decision.model_copy(update={"project": "other"})) is None
        assert await elsewhere.decide(decision.model_copy(update={"turn_id": "1" * 32})) is None
        assert await elsewhere.decide(decision) == DeskAnswer(tool=CALCULATE)
        ended = await turn
    assert refused == [ErrorCode.FORBIDDEN, *[ErrorCode.NOT_FOUND] * 3]
    assert (ended.message.content, ended.steps[0].calls[0].text) == ("It is 391.", "391")


async def test_a_turn_that_waits_is_cancelled(bus: Bus, agent: Agent, around: Surroundings) -> None:
    await mark_calculate(agent)
    around.upstream.script = lambda _: Answer((), [CALL])
    entered = asyncio.Event()
    reading = asyncio.create_task(read_feed(bus, TURN, entered, TurnEventKind.APPROVAL_REQUIRED))
    await entered.wait()
    turn = asyncio.create_task(chat(bus, turn_id=TURN, approvals="wait", stream=True))
    async with asyncio.timeout(WAIT_S):
        await reading
        assert (await bus.caller.call(CANCEL_TURN, TurnSelector(turn_id=TURN))).ending
        with pytest.raises(RequestError) as raised:
            await turn
    assert raised.value.code is ErrorCode.CANCELLED
    events = (await bus.caller.call(FOLLOW_TURN, FollowTurn(turn_id=TURN))).events
    told = [(event.kind, event.approval and event.approval.outcome) for event in events]
    assert (TurnEventKind.APPROVAL_DECIDED, ApprovalOutcome.WITHDRAWN) in told
    assert len(around.upstream.received) == 1
