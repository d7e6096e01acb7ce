"""Chat completions in OpenAI's format, and the turns behind them."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Header, Path, Query, Request, Response
from pydantic_core import to_json

from skillbus.contracts.agent.approvals import DECIDE_CALL
from skillbus.contracts.agent.turns import (
    CANCEL_TURN,
    CHAT,
    FOLLOW_TURN,
    TurnCancelled,
    TurnEvent,
    TurnEventKind,
    TurnSelector,
)
from skillbus.contracts.chat_http import ChatCompletion, DecisionsBody, DecisionsTaken
from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.access.principal import get_caller
from skillbus.gateway.domain.chat.completions import COMPLETION_PREFIX, ChatCompletionBody, ChunkWriter, make_completion
from skillbus.gateway.domain.chat.turn_runner import RemoteTurnRunner
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter, ProjectInQuery
from skillbus.gateway.service.event_stream import EVENT_STREAM, PartStream, wait_pause
from skillbus.gateway.service.runs.disconnection import CLIENT_CLOSED_REQUEST, CallerLeftError, await_while_connected

TURN_HEADER: Final = "X-Skillbus-Turn"
_RUN: Final = "/v1/chat/runs/{turn_id}"
_EXAMPLE: Final = {"model": "auto", "messages": [{"role": "user", "content": "What is 17 * 23?"}]}
_REPLY: Final[Documented] = {HTTPStatus.OK.value: {"model": ChatCompletion, "content": {EVENT_STREAM: {}}}}
_STREAM: Final[Documented] = {
    HTTPStatus.OK.value: {
        "description": "Chunks of the turn.",
        "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
    }
}
TurnInPath = Annotated[
    str,
    Path(pattern=rf"^({COMPLETION_PREFIX})?[0-9a-f]{{32}}$", description="Id of the turn or of the completion."),
]


@dataclass(frozen=True, slots=True)
class ChatRoutes:
    """Handlers of chats."""

    turns: RemoteTurnRunner

    async def create_chat_completion(
        self, body: ChatCompletionBody, request: Request, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> Response:
        """Answer a chat, as in OpenAI's API, with a model that finds and calls the tools of skillbus by itself.

        Tools of the request are the caller's: a call of one ends the turn with `tool_calls`. `usage` counts all steps.
        The field `skillbus` of the reply tells what showing few tools saved. If the caller closes the connection, the
        turn is cancelled, unless it is a stream with a `turn_id` of the caller.
        """
        chosen = body.options.turn_id
        chat = body.to_chat(project, chosen or uuid.uuid4().hex)
        if chat.knowledge is not None and chat.knowledge.project is not None:
            # The agent reads it, which knows no keys.
            get_caller(request.scope).check_project(chat.knowledge.project)
        headers = {TURN_HEADER: chat.turn_id or ""}
        try:
            if not body.stream:
                ended = await await_while_connected(request, self.turns.run_turn(chat))
                return _make_json_response(make_completion(ended), headers)
            writer = ChunkWriter(
                chat.turn_id or "",
                body.model,
                events=body.options.events,
                include_usage=body.stream_options is not None and body.stream_options.include_usage,
            )
            events = self.turns.stream_turn(chat)
            return await _open_stream(request, events, writer, headers, goes_on=chosen is not None)
        except CallerLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def follow_chat_run(
        self,
        turn_id: TurnInPath,
        request: Request,
        project: ProjectInQuery = DEFAULT_PROJECT,
        after: Annotated[int, Query(ge=-1, description="The `id` of the last known event.")] = -1,
        last_event_id: Annotated[int | None, Header(ge=0, description="The same as `after`.")] = None,
    ) -> Response:
        """Follow a turn again, from its beginning or from an event on, up to ten minutes after its end.

        The chunks are those of the stream, with the steps. The first chunk of each message has an `id`. Leaving does
        not cancel the turn.
        """
        selector = TurnSelector(project=project, turn_id=turn_id.removeprefix(COMPLETION_PREFIX))
        start = after if last_event_id is None else last_event_id
        writer = ChunkWriter(selector.turn_id, "auto", events=True, include_usage=True, numbers=True)
        try:
            return await _open_stream(
                request, self.turns.follow_turn(selector, start), writer, {TURN_HEADER: selector.turn_id}
            )
        except CallerLeftError:
            return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def cancel_chat_run(self, turn_id: TurnInPath, project: ProjectInQuery = DEFAULT_PROJECT) -> TurnCancelled:
        """Cancel a turn, with its request to the model and the tools that it is calling."""
        return await self.turns.cancel_turn(
            TurnSelector(project=project, turn_id=turn_id.removeprefix(COMPLETION_PREFIX))
        )

    async def approve_chat_run(
        self, turn_id: TurnInPath, body: DecisionsBody, request: Request, project: ProjectInQuery = DEFAULT_PROJECT
    ) -> DecisionsTaken:
        """Approve or deny the calls of a turn that wait for it: those of the chunks `approval_required`.

        A key may decide about the turns that it started, and with the role `editor` about all of its project.
        """
        caller = get_caller(request.scope)
        started_by = None if caller.role.includes(Role.EDITOR) else caller.name
        selector = TurnSelector(project=project, turn_id=turn_id.removeprefix(COMPLETION_PREFIX))
        return await self.turns.decide_calls(selector, body.decisions, started_by)


async def _open_stream(
    request: Request,
    events: AsyncGenerator[TurnEvent],
    writer: ChunkWriter,
    headers: dict[str, str],
    *,
    goes_on: bool = False,
) -> Response:
    """Return a stream, which `goes_on` without its caller or ends.

    Raises RequestError of a turn that fails before its first text and the first heartbeat.
    """
    getting = asyncio.ensure_future(_get_first(events))
    try:
        await (wait_pause(getting) if goes_on else await_while_connected(request, wait_pause(getting)))
    except CallerLeftError:
        getting.cancel()
        await asyncio.wait([getting])
        raise
    if getting.done():
        getting.result()
    return PartStream(getting, events, writer, headers, goes_on=goes_on)


async def _get_first(events: AsyncGenerator[TurnEvent]) -> TurnEvent | None:
    """Return the first message that tells more than that the turn began."""
    async for event in events:
        if event.kind is not TurnEventKind.BEGUN:
            return event
    return None


def _make_json_response(document: object, headers: dict[str, str]) -> Response:
    return Response(to_json(document), headers=headers, media_type="application/json")


def add_chat_routes(router: DocumentedRouter, routes: ChatRoutes) -> None:
    """Add the routes of chats."""
    chats = router.with_replies(_REPLY).for_runs()
    chats.add("POST", "/v1/chat/completions", Role.RUNNER, routes.create_chat_completion, CHAT.errors, example=_EXAMPLE)
    followed = router.with_replies(_STREAM).for_streams()
    followed.add("GET", _RUN, Role.RUNNER, routes.follow_chat_run, (*FOLLOW_TURN.errors, *CHAT.own_errors))
    decided: dict[str, object] = {"decisions": [{"call_id": "call_1", "approved": True}]}
    router.add("POST", f"{_RUN}/approve", Role.RUNNER, routes.approve_chat_run, DECIDE_CALL.errors, example=decided)
    router.add("DELETE", _RUN, Role.RUNNER, routes.cancel_chat_run, CANCEL_TURN.errors)
