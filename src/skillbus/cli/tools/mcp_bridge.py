"""Bridge from an MCP client on standard input and output to the endpoint `/mcp` of a skillbus.

Lines from the client are passed on unchanged, and so are the replies. When the server has forgotten the session,
because it was restarted or nothing was asked for long, the bridge opens another one and repeats the request.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import httpx

_PATH: Final = "/mcp"
_CALL_S: Final = 3_700.0
"""Longest pause within a reply: a run may take an hour."""
_SESSION: Final = "mcp-session-id"
_PROTOCOL: Final = "mcp-protocol-version"
_ACCEPT: Final = "application/json, text/event-stream"
_EVENT_STREAM: Final = "text/event-stream"
_INTERNAL_ERROR: Final = -32603
_PARSE_ERROR: Final = -32700
_ORDERED: Final = frozenset({"initialize", "notifications/initialized"})
"""Methods after which the next line waits."""

WriteLine = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Message:
    """Line of the client."""

    line: bytes
    method: str
    """Empty for a response."""
    request_id: object
    """None if the client does not wait for a reply."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """HTTP error of the server."""

    status: int
    reason: str


class McpBridge:
    """Passes messages between one client and one server."""

    def __init__(self, http: httpx.AsyncClient, project: str | None, write_line: WriteLine) -> None:
        self._http = http
        self._params = {"project": project} if project else {}
        self._write_line = write_line
        self._session: dict[str, str] = {}
        self._greeting = b""
        """Line of the client's `initialize`, for another session."""
        self._reopening = asyncio.Lock()

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Pass on the client's lines until they end, and then end what is under way."""
        passing = set[asyncio.Task[None]]()
        try:
            async for line in lines:
                if not line.strip():
                    continue
                message = _parse_message(line)
                if message is None:
                    await self._reply_error(None, _PARSE_ERROR, "the line is not JSON")
                    continue
                task = asyncio.create_task(self._pass_on(message))
                passing.add(task)
                task.add_done_callback(passing.discard)
                if message.method in _ORDERED:
                    await asyncio.wait([task])
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            await self._close_session()

    async def _pass_on(self, message: _Message) -> None:
        if message.method == "initialize":
            self._greeting, self._session = message.line, {}
        session = self._session
        try:
            refusal = await self._send(message.line)
            if refusal is not None and refusal.status == httpx.codes.NOT_FOUND and _SESSION in session:
                refusal = await self._reopen_session(session) or await self._send(message.line)
            reason = None if refusal is None else refusal.reason
        except httpx.HTTPError as error:
            reason = f"skillbus does not answer at {self._http.base_url}: {error or type(error).__name__}"
        if reason is not None and message.request_id is not None:
            await self._reply_error(message.request_id, _INTERNAL_ERROR, reason)

    async def _send(self, line: bytes, *, is_quiet: bool = False) -> _Refusal | None:
        """Send a line and pass on what is replied. Return the refusal instead if it is an HTTP error."""
        headers = {"Accept": _ACCEPT, "Content-Type": "application/json", **self._session}
        sent = self._http.stream("POST", _PATH, content=line, headers=headers, params=self._params, timeout=_CALL_S)
        async with sent as response:
            if response.is_error:
                return _Refusal(response.status_code, _explain_refusal(response.status_code, await response.aread()))
            if _SESSION in response.headers and _SESSION not in self._session:
                self._session = {_SESSION: response.headers[_SESSION]}
            if response.headers.get("content-type", "").startswith(_EVENT_STREAM):
                async for text in response.aiter_lines():
                    if text.startswith("data: "):
                        await self._take_reply(text.removeprefix("data: ").encode(), is_quiet=is_quiet)
            elif body := (await response.aread()).strip():
                await self._take_reply(body, is_quiet=is_quiet)
            return None

    async def _take_reply(self, reply: bytes, *, is_quiet: bool) -> None:
        if _PROTOCOL not in self._session:
            result = json.loads(reply).get("result")
            if isinstance(result, dict) and "protocolVersion" in result:
                self._session = {**self._session, _PROTOCOL: str(result["protocolVersion"])}
        if not is_quiet:
            await self._write_line(reply)

    async def _reopen_session(self, lost: dict[str, str]) -> _Refusal | None:
        """Open another session instead of a lost one. Return the refusal; the next request tries again then."""
        async with self._reopening:
            if self._session.get(_SESSION) != lost.get(_SESSION):
                return None  # another request has opened one
            self._session = {}
            try:
                refusal = await self._send(self._greeting, is_quiet=True)
            finally:
                if _SESSION not in self._session:
                    self._session = lost
            if refusal is None:
                await self._send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', is_quiet=True)
            return refusal

    async def _close_session(self) -> None:
        if _SESSION not in self._session:
            return
        try:
            await self._http.delete(_PATH, headers=self._session)
        except httpx.HTTPError:
            return  # the server is gone, and the session with it

    async def _reply_error(self, request_id: object, code: int, message: str) -> None:
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
        await self._write_line(json.dumps(error).encode())


def _parse_message(line: bytes) -> _Message | None:
    """Return the message of a line; None if it is not JSON."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" not in message:
        return _Message(line, "", None)
    return _Message(line, str(message["method"]), message.get("id"))


def _explain_refusal(status: int, body: bytes) -> str:
    if status == httpx.codes.UNAUTHORIZED:
        return "skillbus needs a key: give --api-key or SKILLBUS_API_KEY, or the server's folder with --data"
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"skillbus answers HTTP {status}"
    return f"skillbus answers HTTP {status}: {detail}"
