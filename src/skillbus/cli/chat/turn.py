"""Turns of `skillbus chat`: request, stream and end."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skillbus.cli.chat.approvals import answer_approval
from skillbus.cli.chat.prompt import read_answer
from skillbus.cli.chat.view import TurnView
from skillbus.cli.client.http_api import CHAT_COMPLETIONS, parse_reply
from skillbus.cli.errors import StoppedError
from skillbus.cli.session import Session
from skillbus.client.operations.chat import ChunkParser
from skillbus.contracts.agent.approvals import ApprovalMode
from skillbus.contracts.agent.chat import ChatRole
from skillbus.contracts.chat_http import ChatCompletion, SkillbusChatOptions

_SILENCE_S: Final = 360.0
"""Longest pause of a turn: longer than its own limit of 300 s, since the server says nothing before the first text."""


@dataclass(frozen=True, slots=True)
class Said:
    """Message of a chat."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of all turns of a command."""

    model: str
    system: str | None
    options: SkillbusChatOptions
    asks_person: bool = False
    """True if somebody at the terminal can approve calls."""

    def build_body(self, messages: Sequence[Said], *, stream: bool) -> dict[str, object]:
        """Return the body of a request."""
        instructions = [Said(ChatRole.SYSTEM, self.system)] if self.system else []
        own = self.options.model_dump(mode="json", exclude_unset=True) | (self._follow() if stream else {})
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": it.role.value, "content": it.content} for it in (*instructions, *messages)],
        }
        if own:
            body["metadata"] = {"skillbus": own}
        return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})

    def _follow(self) -> dict[str, object]:
        """Return the options of a turn that is followed step by step."""
        return {"events": True, "approvals": (ApprovalMode.WAIT if self.asks_person else ApprovalMode.REFUSE).value}


async def answer_once(session: Session, settings: ChatSettings, question: str) -> None:
    """Run one turn and show it. Ctrl-C cancels it."""
    messages = (Said(ChatRole.USER, question),)
    try:
        if session.output.as_json:
            await _print_reply(session, settings, messages)
        else:
            await stream_turn(session, settings, messages, TurnView(session.output))
    except asyncio.CancelledError:
        raise StoppedError("the turn is cancelled") from None


async def _print_reply(session: Session, settings: ChatSettings, messages: Sequence[Said]) -> None:
    """Print the reply as the server sent it, which has more than its contract names."""
    params, body = session.connection.scope, settings.build_body(messages, stream=False)
    response = await session.connection.send("POST", CHAT_COMPLETIONS, params=params, json=body, wait_s=_SILENCE_S)
    parse_reply(ChatCompletion, response.content, response)
    session.output.show_result(json.loads(response.content), str)


async def stream_turn(session: Session, settings: ChatSettings, messages: Sequence[Said], view: TurnView) -> None:
    """Run a turn and show it as it goes on. Leaving early closes the stream, and the server cancels the turn."""
    params, body = session.connection.scope, settings.build_body(messages, stream=True)
    try:
        async with session.connection.stream(
            "POST", CHAT_COMPLETIONS, params=params, json=body, silence_s=_SILENCE_S
        ) as response:
            parser = ChunkParser(response)
            async for line in response.aiter_lines():
                if (chunk := parser.feed_line(line)) is not None:
                    view.show_chunk(chunk)
                    await answer_approval(session, chunk, read_answer)
            parser.finish()
    except (Exception, asyncio.CancelledError) as error:
        if not isinstance(error, OSError):  # what cannot be written to is not written to again
            view.end_line()
        raise
    view.show_end()
