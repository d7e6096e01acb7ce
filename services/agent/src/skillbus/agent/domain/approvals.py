"""Calls that need the approval of a person, because an agent makes them and an operator or an MCP server said so."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from skillbus.agent.domain.errors import ApprovalMissingError
from skillbus.contracts.agent.tool_calls import CallTool
from skillbus.contracts.indexer.tools import CatalogueTool

ApproveCall: TypeAlias = Callable[[CallTool, str], Awaitable[CallTool]]
"""Returns a call as a person approved it, perhaps with other arguments. The text says why it needs an approval.

Raises ApprovalMissingError, CallDeniedError.
"""


async def refuse_call(request: CallTool, reason: str) -> CallTool:
    """Implement `ApproveCall` where nobody can be asked. Raises ApprovalMissingError."""
    raise ApprovalMissingError(
        f"{request.id[:100]} needs the approval of a person, who cannot be asked here: {reason}. "
        "A person can call it directly, or approve it in a chat that waits for approvals."
    )


def explain_need(known: CatalogueTool) -> str:
    """Return why the calls of a tool need an approval."""
    return "an operator requires it" if known.approval_mark else "its server states that it may destroy something"
