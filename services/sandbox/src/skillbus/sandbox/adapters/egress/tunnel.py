"""Tunnel between a run and an approved place, with a byte budget."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from skillbus.sandbox.domain.egress_policy import Connection, EgressVerdict

_CHUNK: Final = 64 * 1024


@dataclass(slots=True)
class EgressBudget:
    """Bytes that a run may still move, over all its connections."""

    left: int

    def spend(self, size: int) -> bool:
        """Take `size` bytes. Return False and empty the budget if fewer are left."""
        enough = size <= self.left
        self.left = self.left - size if enough else 0
        return enough


@dataclass(slots=True)
class Tunnel:
    """Connection of a run joined to a connection of a place. The first verdict counts."""

    inside: Connection
    beyond: Connection
    budget: EgressBudget
    sent: int = 0
    received: int = 0
    verdict: EgressVerdict = EgressVerdict.ALLOWED
    _alive: Callable[[], None] = field(default=lambda: None, repr=False)

    async def carry(self, head: bytes, upload: int | None, idle_s: float) -> None:
        """Forward bytes in both directions until both sides end or the budget is empty.

        The place gets `head`, then at most `upload` bytes of the run; None for no bound. Raises TimeoutError if no byte
        moves in either direction for `idle_s` seconds.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(idle_s) as idle:
            self._alive = lambda: idle.reschedule(loop.time() + idle_s)
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(head, upload))
                await self._receive()
                if upload is not None:
                    sending.cancel()

    def end(self, verdict: EgressVerdict) -> None:
        """Close both directions at once."""
        if self.verdict is EgressVerdict.ALLOWED:
            self.verdict = verdict
        for _, writer in (self.inside, self.beyond):
            writer.transport.abort()

    async def _send(self, head: bytes, upload: int | None) -> None:
        reader, (_, writer) = self.inside[0], self.beyond
        try:
            if not await self._pass_on(head, writer, sending=True):
                return
            while upload is None or upload > 0:
                chunk = await reader.read(_CHUNK if upload is None else min(_CHUNK, upload))
                if not chunk:
                    break
                upload = None if upload is None else upload - len(chunk)
                if not await self._pass_on(chunk, writer, sending=True):
                    return
            if upload is None:
                writer.write_eof()
        except OSError:
            self.end(EgressVerdict.BROKEN)

    async def _receive(self) -> None:
        reader, (_, writer) = self.beyond[0], self.inside
        try:
            while chunk := await reader.read(_CHUNK):
                if not await self._pass_on(chunk, writer, sending=False):
                    return
            writer.write_eof()
        except OSError:
            self.end(EgressVerdict.BROKEN)

    async def _pass_on(self, chunk: bytes, writer: asyncio.StreamWriter, *, sending: bool) -> bool:
        if not self.budget.spend(len(chunk)):
            self.end(EgressVerdict.OVER_BYTES)
            return False
        if sending:
            self.sent += len(chunk)
        else:
            self.received += len(chunk)
        self._alive()
        writer.write(chunk)
        await writer.drain()
        return True
