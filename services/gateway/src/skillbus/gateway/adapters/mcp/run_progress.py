"""Progress of a call, from the Server-Sent Events of its route."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from pydantic import JsonValue

from skillbus.contracts.http import Problem
from skillbus.gateway.adapters.mcp.inner_request import InnerRequestError

ReportProgress = Callable[[int, str], Awaitable[None]]
"""Sends the number of a step and a message to the client."""
_MESSAGE_CHARACTERS: Final = 500


class RunProgress:
    """Reports the output of a skill while it runs, in the order of its events."""

    def __init__(self, report: ReportProgress) -> None:
        self._report = report
        self._buffer = b""
        self._steps = asyncio.Queue[str | None]()
        self._reply: dict[str, JsonValue] | None = None
        self._problem: Problem | None = None

    async def __aenter__(self) -> Self:
        self._reporting = asyncio.create_task(self._report_steps())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._steps.put_nowait(None)
        if error is not None:
            self._reporting.cancel()
        else:
            await self._reporting

    def feed_chunk(self, chunk: bytes) -> None:
        """Take a part of the stream, which may end within an event."""
        *blocks, self._buffer = (self._buffer + chunk).split(b"\n\n")
        for block in blocks:
            name, _, data = block.decode().partition("\n")
            text = data.removeprefix("data: ")
            match name.removeprefix("event: "):
                case "begun":
                    self._steps.put_nowait("begun")
                case "output":
                    self._steps.put_nowait(str(json.loads(text)["text"])[-_MESSAGE_CHARACTERS:])
                case "reply":
                    self._reply = json.loads(text)
                case "error":
                    self._problem = Problem.model_validate_json(text)

    def get_reply(self) -> dict[str, JsonValue]:
        """Return the result of the call. Raises InnerRequestError if the call broke off."""
        if self._problem is not None:
            raise InnerRequestError(self._problem)
        if self._reply is None:
            raise TypeError("a stream of the gateway ends with a reply or an error")
        return self._reply

    async def _report_steps(self) -> None:
        number = 0
        while (message := await self._steps.get()) is not None:
            number += 1
            await self._report(number, message)
