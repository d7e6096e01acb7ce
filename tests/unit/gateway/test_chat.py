"""Chat completions over HTTP: chunks, lost messages, failures, and who may ask for which knowledge."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skillbus.contracts.agent.approvals import DECIDE_CALL, ApprovalMode, CallDecided, DecideCall
from skillbus.contracts.agent.chat import Chat, ChatMessage, ChatRole, FinishReason, TokenUsage, TurnEnded
from skillbus.contracts.agent.turns import CHAT, FOLLOW_TURN, FollowTurn, TurnEvent, TurnEventKind, TurnFollowed
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import Message
from skillbus.gateway.domain.chat.turn_runner import RemoteTurnRunner
from skillbus.gateway.service import chat as chat_routes
from skillbus.gateway.service import event_stream

from .fakes import KEY, World

QUESTION = {"messages": [{"role": "user", "content": "Hi"}]}
TURN = "f" * 32
PATH = "/v1/chat/completions"


def end(text: str) -> TurnEnded:
    return TurnEnded(
        turn_id=TURN,
        provider="scripted",
        model="small",
        message=ChatMessage(role=ChatRole.ASSISTANT, content=text),
        finish_reason=FinishReason.STOP,
        usage=TokenUsage(prompt_tokens=3, completion_tokens=2),
    )


def tell(number: int, kind: TurnEventKind, **fields: object) -> TurnEvent:
    about = {"turn_id": TURN, "number": number, "after": number - 1, "kind": kind, **fields}
    return TurnEvent.model_validate(about)


def read_chunks(text: str) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert data.pop() == "[DONE]"
    return [json.loads(one) for one in data]


def read_text(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk.get("choices"))


def note_chats(world: World) -> list[Message]:
    """Answer every chat, and return the list of those that come."""
    asked = list[Message]()

    def answer(request: Message) -> Message:
        asked.append(request)
        return end("ok")

    world.caller.on(CHAT, answer)
    return asked


@pytest.fixture
def world() -> World:
    return World(key=KEY)


async def test_messages_that_the_feed_lost_are_asked_for(world: World) -> None:
    world.caller.on(CHAT, lambda _: end("one two three"))
    whole = [
        tell(0, TurnEventKind.BEGUN),
        tell(1, TurnEventKind.TEXT, text="one "),
        tell(2, TurnEventKind.TEXT, text="two "),
        tell(3, TurnEventKind.TEXT, text="three"),
        tell(4, TurnEventKind.ENDED, ended=end("one two three")),
    ]

    def follow(request: Message) -> Message:
        assert isinstance(request, FollowTurn)
        left = tuple(event for event in whole if event.number > request.after)
        texts = [event for event in left if event.kind is TurnEventKind.TEXT]
        if len(texts) > 1:  # the agent joins texts that follow one another
            joined = {"text": "".join(event.text for event in texts), "after": texts[0].after}
            left = (texts[-1].model_copy(update=joined), *(event for event in left if event not in texts))
        return TurnFollowed(events=left, last=4, ended=True)

    world.caller.on(FOLLOW_TURN, follow)
    for event in (whole[0], whole[1], whole[3]):  # the third and the last are lost
        world.turn_feed.told.put_nowait(event)
    async with world.client() as client:
        answer = await client.post(PATH, json={**QUESTION, "stream": True})
    chunks = read_chunks(answer.text)
    assert read_text(chunks) == "one two three"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert world.turn_feed.listening == 0


async def test_a_turn_that_fails_before_its_first_text_has_the_status_of_its_error(world: World) -> None:
    world.caller.on(CHAT, lambda _: RequestError(ErrorCode.MODEL_UNAVAILABLE, "no model answered"))
    async with world.client() as client:
        answer = await client.post(PATH, json={**QUESTION, "stream": True})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "model_unavailable"


async def test_a_turn_that_fails_in_the_middle_ends_its_stream_with_an_error(world: World) -> None:
    world.caller.on(CHAT, lambda _: RequestError(ErrorCode.MODEL_UNAVAILABLE, "it broke off"))
    world.turn_feed.told.put_nowait(tell(0, TurnEventKind.BEGUN))
    world.turn_feed.told.put_nowait(tell(1, TurnEventKind.TEXT, text="one "))
    failed = {"code": ErrorCode.MODEL_UNAVAILABLE, "detail": "it broke off"}
    world.turn_feed.told.put_nowait(tell(2, TurnEventKind.FAILED, **failed))
    async with world.client() as client:
        answer = await client.post(PATH, json={**QUESTION, "stream": True})
    *_, text, error = read_chunks(answer.text)
    assert read_text([text]) == "one "
    assert error["error"]["message"] == "it broke off"


async def test_knowledge_of_a_project_that_the_key_lacks_is_refused_and_nobody_is_asked(world: World) -> None:
    key = world.add_key(Role.RUNNER, "mine", "handbook")
    asked = note_chats(world)

    async with world.client(key) as client:

        async def ask(project: str) -> int:
            metadata = {"skillbus": {"knowledge": {"project": project}}}
            body = {**QUESTION, "metadata": metadata}
            return (await client.post(PATH, params={"project": "mine"}, json=body)).status_code

        assert await ask("theirs") == 403
        assert asked == []
        assert await ask("handbook") == 200
    (chat,) = asked
    assert isinstance(chat, Chat)
    assert chat.knowledge is not None
    assert (chat.project, chat.knowledge.project) == ("mine", "handbook")


async def test_a_caller_cannot_put_words_of_a_provider_into_a_message(world: World) -> None:
    asked = note_chats(world)
    message = {"role": "assistant", "content": "x", "upstream": {"signed": True}}
    async with world.client() as client:
        answer = await client.post(PATH, json={"messages": [message, *QUESTION["messages"]]})
    assert answer.status_code == 200
    (chat,) = asked
    assert isinstance(chat, Chat)
    assert [one.upstream for one in chat.messages] == [None, None]


async def test_a_stream_without_a_message_begins_with_heartbeats(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on, pauses = asyncio.Event(), iter(range(2))

    async def run(_: RemoteTurnRunner, _chat: Chat) -> TurnEnded:
        await going_on.wait()
        world.turn_feed.told.put_nowait(tell(0, TurnEventKind.BEGUN))
        world.turn_feed.told.put_nowait(tell(1, TurnEventKind.ENDED, ended=end("late")))
        return end("late")

    async def wait_pause(getting: asyncio.Future[TurnEvent | None]) -> None:
        """End two pauses at once, and wait for the message in the third."""
        if next(pauses, None) is None:
            going_on.set()
            await asyncio.wait([getting])

    monkeypatch.setattr(RemoteTurnRunner, "run_turn", run)
    for module in (chat_routes, event_stream):
        monkeypatch.setattr(module, "wait_pause", wait_pause)
    async with world.client() as client:
        answer = await client.post(PATH, json={**QUESTION, "stream": True})
    assert answer.text.startswith(": still there\n\n")
    assert read_chunks(answer.text)[-1]["choices"][0]["finish_reason"] == "stop"


async def test_the_end_of_a_turn_whose_reply_was_lost_is_asked_for(world: World) -> None:
    world.caller.on(CHAT, lambda _: RequestError(ErrorCode.UNAVAILABLE, "the connection was lost"))
    told = (tell(1, TurnEventKind.TEXT, text="whole"), tell(2, TurnEventKind.ENDED, ended=end("whole")))
    world.caller.on(FOLLOW_TURN, lambda _: TurnFollowed(events=told, last=2, ended=True))
    async with world.client() as client:
        answer = await client.post(PATH, json=QUESTION)
        streamed = await client.post(PATH, json={**QUESTION, "stream": True})
    assert answer.json()["choices"][0]["message"]["content"] == "whole"
    assert read_text(read_chunks(streamed.text)) == "whole"


async def test_a_lost_reply_of_a_turn_that_nobody_has_is_the_error_that_it_was(world: World) -> None:
    world.caller.on(CHAT, lambda _: RequestError(ErrorCode.UNAVAILABLE, "the connection was lost"))
    world.caller.on(FOLLOW_TURN, lambda _: RequestError(ErrorCode.NOT_FOUND, "there is no turn"))
    async with world.client() as client:
        answer = await client.post(PATH, json=QUESTION)
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "the connection was lost")


async def test_the_caller_of_an_agent_that_is_gone_does_not_wait_for_its_deadline(world: World) -> None:
    looks = list[Message]()

    class LostAgent:
        async def call(self, endpoint: Any, request: Message, **options: Any) -> Any:
            if endpoint is CHAT:
                await asyncio.Event().wait()
            looks.append(request)
            if len(looks) == 1:
                return TurnFollowed(events=(), last=0, ended=False)
            raise RequestError(ErrorCode.NOT_FOUND, "there is no turn")

    runner = RemoteTurnRunner(LostAgent(), world.turn_feed.listen, look_every_s=0.001)
    with pytest.raises(RequestError, match="is gone"):
        await runner.run_turn(Chat.model_validate({**QUESTION, "turn_id": TURN}))
    assert len(looks) == 4  # seen once, missed twice, and asked for its end


async def test_following_an_ended_turn_after_its_last_message_ends_at_once(world: World) -> None:
    world.caller.on(FOLLOW_TURN, lambda _: TurnFollowed(events=(), last=4, ended=True))
    async with world.client() as client:
        answer = await client.get(f"/v1/chat/runs/{TURN}", headers={"Last-Event-ID": "4"})
    assert (answer.status_code, answer.text) == (200, "data: [DONE]\n\n")
    assert len(world.caller.asked) == 1


async def test_a_feed_that_closes_before_its_first_message_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = asyncio.Event()

    async def run(_: RemoteTurnRunner, _chat: Chat) -> TurnEnded:
        await followed.wait()
        return end("whole")

    @asynccontextmanager
    async def listen(_: str) -> AsyncGenerator[AsyncIterator[TurnEvent]]:
        async def nothing() -> AsyncGenerator[TurnEvent]:
            for event in ():
                yield event

        yield nothing()

    def follow(_: Message) -> Message:
        followed.set()
        told = (tell(1, TurnEventKind.TEXT, text="whole"), tell(2, TurnEventKind.ENDED, ended=end("whole")))
        return TurnFollowed(events=told, last=2, ended=True)

    monkeypatch.setattr(RemoteTurnRunner, "run_turn", run)
    monkeypatch.setattr(world.turn_feed, "listen", listen)
    world.caller.on(FOLLOW_TURN, follow)
    async with world.client() as client:
        answer = await client.post(PATH, json={**QUESTION, "stream": True})
    assert read_text(read_chunks(answer.text)) == "whole"


@pytest.mark.parametrize(
    ("stream", "options", "mode"),
    [
        (True, {"events": True}, ApprovalMode.WAIT),
        (True, {}, ApprovalMode.REFUSE),
        (False, {"events": True}, ApprovalMode.REFUSE),
        (False, {"approvals": "wait"}, ApprovalMode.WAIT),
        (True, {"events": True, "approvals": "refuse"}, ApprovalMode.REFUSE),
    ],
)
async def test_a_turn_waits_for_approvals_if_its_caller_sees_them_or_says_so(
    world: World, stream: bool, options: dict[str, object], mode: ApprovalMode
) -> None:
    asked = note_chats(world)
    async with world.client() as client:
        await client.post(PATH, json={**QUESTION, "stream": stream, "metadata": {"skillbus": options}})
    assert [getattr(chat, "approvals", None) for chat in asked] == [mode]


@pytest.mark.parametrize("role", [Role.RUNNER, Role.EDITOR, Role.ADMIN])
async def test_a_key_decides_about_its_own_turns_and_an_editor_about_all(world: World, role: Role) -> None:
    key = world.add_key(role, "p")
    asked = list[DecideCall]()

    def decide(request: Message) -> Message | RequestError:
        assert isinstance(request, DecideCall)
        asked.append(request)
        if request.call_id == "gone":
            return RequestError(ErrorCode.NOT_FOUND, "no such call waits")
        return CallDecided(turn_id=TURN, call_id=request.call_id, tool="mcp:a/b", approved=request.approved)

    world.caller.on(DECIDE_CALL, decide)
    gone, denied = {"call_id": "gone", "approved": True}, {"call_id": "c", "approved": False, "reason": "no"}
    path = f"/v1/chat/runs/chatcmpl-{TURN}/approve"
    async with world.client(key) as client:
        taken = await client.post(path, json={"decisions": [gone, denied]})
        none = await client.post(path, json={"decisions": [gone]})
        foreign = await client.post(path, params={"project": "q"}, json={"decisions": [denied]})
    assert [one["taken"] for one in taken.json()["decisions"]] == [False, True]
    assert (none.status_code, foreign.status_code, len(asked)) == (404, 403, 3)
    assert (asked[1].project, asked[1].turn_id, asked[1].reason) == ("p", TURN, "no")
    assert {request.started_by is None for request in asked} == {role is not Role.RUNNER}


@pytest.mark.parametrize("chosen", [None, TURN])
async def test_a_stream_ends_when_its_caller_leaves_unless_the_caller_chose_its_id(
    world: World, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    begun, left, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def stream(_: object, chat: Chat) -> AsyncGenerator[TurnEvent]:
        yield tell(1, TurnEventKind.TEXT, text="one")
        begun.set()
        try:
            await left.wait()
            yield tell(2, TurnEventKind.ENDED, ended=end("one"))
            ended.append(chat.turn_id or "")
        except (asyncio.CancelledError, GeneratorExit):
            ended.append("cancelled")
            raise

    monkeypatch.setattr(RemoteTurnRunner, "stream_turn", stream)
    options = {} if chosen is None else {"turn_id": chosen}
    body = json.dumps({**QUESTION, "stream": True, "metadata": {"skillbus": options}}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        pass

    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"content-type", b"application/json")]
    headers += [(b"host", b"127.0.0.1:8080")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
    asking = asyncio.create_task(world.app()({**scope, "http_version": "1.1", "scheme": "http"}, receive, send))
    if chosen is not None:
        await begun.wait()
        left.set()
    await asking
    assert ended == ["cancelled" if chosen is None else TURN]
