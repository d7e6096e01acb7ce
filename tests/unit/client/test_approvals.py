"""Calls that wait for an approval in a streamed chat, answered by a function of the caller."""

import json
from collections.abc import Callable

import httpx
import pytest

from skillbus.client import AsyncSkillbus, Skillbus
from skillbus.client.approvals import answer_approvals, answer_approvals_async
from skillbus.contracts.agent.approvals import CallApproval
from skillbus.contracts.chat_http import CallDecision

TURN = "0" * 32
URL, KEY = "http://server.test", "sbk_test"
APPROVAL = {"call_id": "c1", "id": "mcp:a/b", "reason": "why", "expires_at": "2026-01-01T00:00:00Z"}
CHUNKS = (
    {"choices": [], "skillbus": {"kind": "approval_required", "approval": APPROVAL}},
    {"choices": [], "skillbus": {"kind": "approval_decided", "approval": APPROVAL | {"outcome": "approved"}}},
    {"choices": [{"index": 0, "delta": {"content": "Done."}}]},
)


class Server:
    """Streams a turn with a call that waits, and takes the decision unless it comes too late."""

    def __init__(self, *, late: bool = False) -> None:
        self.late = late
        self.decisions: list[object] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/chat/completions":
            head = {"id": f"chatcmpl-{TURN}", "model": "auto"}
            lines = "".join(f"data: {json.dumps(head | chunk)}\n\n" for chunk in CHUNKS)
            return httpx.Response(200, text=f"{lines}data: [DONE]\n\n")
        assert request.url.path == f"/v1/chat/runs/{TURN}/approve"
        self.decisions += json.loads(request.content)["decisions"]
        if self.late:
            error = {"message": "no such call waits", "type": "invalid_request_error", "code": "not_found"}
            return httpx.Response(404, json={"error": error})
        taken = {"turn_id": TURN, "decisions": [{"call_id": "c1", "taken": True}]}
        return httpx.Response(200, json=taken)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("decide", "sent"),
    [
        (lambda _: True, {"call_id": "c1", "approved": True}),
        (lambda _: False, {"call_id": "c1", "approved": False}),
        (
            lambda call: CallDecision(call_id=call.call_id, approved=True, arguments={"a": 1}),
            {"call_id": "c1", "approved": True, "arguments": {"a": 1}},
        ),
    ],
)
async def test_a_function_decides_about_each_call_that_waits(
    decide: Callable[[CallApproval], bool | CallDecision], sent: dict[str, object], late: bool
) -> None:
    async def decide_later(call: CallApproval) -> bool | CallDecision:
        return decide(call)

    server = Server(late=late)
    with (
        Skillbus(URL, KEY, transport=httpx.MockTransport(server.answer)) as client,
        client.stream_chat_completion("Go", options={"events": True}) as chunks,
    ):
        texts = [chunk.text for chunk in answer_approvals(client, chunks, decide)]
    async with (
        AsyncSkillbus(URL, KEY, transport=httpx.MockTransport(server.answer)) as other,
        other.stream_chat_completion("Go", options={"events": True}) as more,
    ):
        texts += [chunk.text async for chunk in answer_approvals_async(other, more, decide_later)]
    assert texts == ["", "", "Done."] * 2
    assert server.decisions == [sent, sent]
