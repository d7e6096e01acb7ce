"""Load in a closed loop, where each connection waits for its reply, and in an open loop, where requests arrive by the
clock.

A closed loop measures capacity. Its latencies omit what a stall costs: while the server stalls, nobody asks. An open
loop measures each latency from the time at which the request was due, so that a stall counts for everyone who would
have come meanwhile (Gil Tene: How NOT to measure latency; the correction of wrk2).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Final

from skillbus.cli.load.http_sender import HttpSender, ServerAddress

MAX_CONNECTIONS: Final = 512
_OK: Final = range(200, 300)
_REFUSED: Final = 429
_TIMER_S: Final = 0.002
"""Timers of an event loop fire up to a millisecond late. A request that leaves later than this was due earlier."""
_PAUSE_S: Final = 0.1
"""Pause before a connection is opened again that failed."""


@dataclass(slots=True)
class LoadSamples:
    """Outcomes of the requests of a phase. Latencies are in seconds."""

    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    """Time to a 429."""
    failed: Counter[str] = field(default_factory=Counter)
    """Requests without a successful reply, by status or by what went wrong."""
    elapsed_s: float = 0
    """Time from the first request to the last reply."""
    cpu_s: float = 0
    """Processor time of the generator."""

    @property
    def sent(self) -> int:
        """Number of requests."""
        return len(self.answered) + len(self.refused) + self.failed.total()


class LoadGenerator:
    """Sends encoded requests to one server."""

    def __init__(self, address: ServerAddress, requests: Iterator[bytes], timeout_s: float) -> None:
        self._address = address
        self._requests = requests
        self._timeout_s = timeout_s
        self._idle: list[HttpSender] = []
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def send_closed(self, connections: int, duration_s: float) -> LoadSamples:
        """Let connections send one request after another for a time.

        A connection that is refused waits as long as the reply says, as a client should.
        """
        samples, start, cpu = LoadSamples(), perf_counter(), process_time()

        async def ask_repeatedly() -> None:
            while (now := perf_counter()) < start + duration_s:
                retry_after_s = await self._ask(now, samples)
                await asyncio.sleep(max(0, min(retry_after_s, start + duration_s - perf_counter())))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(connections):
                tasks.create_task(ask_repeatedly())
        samples.elapsed_s, samples.cpu_s = perf_counter() - start, process_time() - cpu
        return samples

    async def send_open(self, rate: float, duration_s: float) -> LoadSamples:
        """Send `rate` requests a second for a time, whether earlier ones are answered or not."""
        samples, start, cpu = LoadSamples(), perf_counter(), process_time()
        async with asyncio.TaskGroup() as tasks:
            for number in range(max(1, round(rate * duration_s))):
                due = start + number / rate
                if (wait_s := due - perf_counter()) > 0:
                    await asyncio.sleep(wait_s)
                now = perf_counter()
                tasks.create_task(self._ask(due if now - due > _TIMER_S else now, samples))
        samples.elapsed_s, samples.cpu_s = perf_counter() - start, process_time() - cpu
        return samples

    def close(self) -> None:
        """Close all connections."""
        for sender in self._idle:
            sender.close()
        self._idle.clear()

    async def _ask(self, due: float, samples: LoadSamples) -> float:
        """Send a request that was due at a time. Return the seconds after which the server will take another one."""
        async with self._places:
            sender = self._idle.pop() if self._idle else HttpSender(self._address)
            try:
                async with asyncio.timeout(self._timeout_s):
                    reply = await sender.send(next(self._requests))
            except TimeoutError:
                sender.close()
                samples.failed[f"no reply in {self._timeout_s:g} s"] += 1
                return 0
            except OSError as error:
                sender.close()
                samples.failed[error.strerror or str(error)] += 1
                return _PAUSE_S
            self._idle.append(sender)
            took_s = perf_counter() - due
            if reply.status in _OK:
                samples.answered.append(took_s)
            elif reply.status == _REFUSED:
                samples.refused.append(took_s)
            else:
                samples.failed[str(reply.status)] += 1
            return reply.retry_after_s
