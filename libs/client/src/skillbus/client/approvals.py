"""Approvals of tool calls in a streamed chat, answered by a function of the caller."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from skillbus.client.errors import NotFoundError
from skillbus.client.skillbus_client import AsyncSkillbus, Skillbus
from skillbus.contracts.agent.approvals import CallApproval
from skillbus.contracts.chat_http import CallDecision, ChatChunk

_ID_PREFIX: Final = "chatcmpl-"


def answer_approvals(
    client: Skillbus,
    chunks: Iterator[ChatChunk],
    decide: Callable[[CallApproval], bool | CallDecision],
    *,
    project: str | None = None,
) -> Iterator[ChatChunk]:
    """Yield the chunks of a stream with the option `events`. `decide` is asked for each call that waits.

    It returns True to approve the call and False to deny it, or a `CallDecision`. `project` is that of the chat. A
    decision that comes too late is dropped: a later chunk says what became of the call.
    """
    for chunk in chunks:
        yield chunk
        if (waiting := find_waiting_call(chunk)) is not None:
            decision = make_decision(waiting, decide(waiting))
            try:
                client.approve_chat_run(chunk.id.removeprefix(_ID_PREFIX), [decision], project=project)
            except NotFoundError:
                continue


async def answer_approvals_async(
    client: AsyncSkillbus,
    chunks: AsyncIterator[ChatChunk],
    decide: Callable[[CallApproval], Awaitable[bool | CallDecision]],
    *,
    project: str | None = None,
) -> AsyncIterator[ChatChunk]:
    """Do the same as `answer_approvals` with `AsyncSkillbus`."""
    async for chunk in chunks:
        yield chunk
        if (waiting := find_waiting_call(chunk)) is not None:
            decision = make_decision(waiting, await decide(waiting))
            try:
                await client.approve_chat_run(chunk.id.removeprefix(_ID_PREFIX), [decision], project=project)
            except NotFoundError:
                continue


def find_waiting_call(chunk: ChatChunk) -> CallApproval | None:
    """Return the call that begins to wait with this chunk, or None."""
    told = chunk.skillbus
    return told.approval if told is not None and told.kind == "approval_required" else None


def make_decision(waiting: CallApproval, answer: bool | CallDecision) -> CallDecision:
    """Return the decision about a call."""
    return answer if isinstance(answer, CallDecision) else CallDecision(call_id=waiting.call_id, approved=answer)
