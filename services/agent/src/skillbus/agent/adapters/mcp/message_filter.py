"""Filter between a transport and the SDK. Only answers and pings reach the SDK.

The SDK logs messages that it does not understand in full, and their size is up to the server.
"""

from collections.abc import Callable

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
)

_LIST_CHANGED = "notifications/tools/list_changed"
_PING = "ping"


class MessageFilter:
    """Passes messages from a transport to a session."""

    def __init__(
        self,
        transport: MemoryObjectReceiveStream[SessionMessage | Exception],
        answer: MemoryObjectSendStream[SessionMessage],
        on_change: Callable[[], None],
        on_fault: Callable[[Exception], None],
    ) -> None:
        self._transport = transport
        self._answer = answer
        self._on_change = on_change
        self._on_fault = on_fault

    async def run(self, session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass messages until the transport ends, then end the session."""
        async with session:
            try:
                async for message in self._transport:
                    if isinstance(message, Exception):
                        self._on_fault(message)
                    elif await self._is_for_session(message.message):
                        await session.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return

    async def _is_for_session(self, message: JSONRPCMessage) -> bool:
        match message.root:
            case JSONRPCNotification(method=method):
                if method == _LIST_CHANGED:
                    self._on_change()
                return False
            case JSONRPCRequest(method=method, id=request_id) if method != _PING:
                error = ErrorData(code=METHOD_NOT_FOUND, message="this client only calls tools")
                refusal = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
                await self._answer.send(SessionMessage(JSONRPCMessage(refusal)))
                return False
        return True
