"""Watches a run that somebody else may have started: what it prints, and its end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.sandbox.run_history import GET_RUN, RunEvent, RunEventKind, RunRecord, RunSelector, RunState
from skillbus.gateway.domain.feed_pauses import yield_pauses
from skillbus.gateway.domain.ports import BusCaller, OpenRunFeed

_LOOK_EVERY_S: Final = 1.0
"""Longest silence until the record of the run is read. Only runs that were requested with `stream` have a feed, and its
last message comes shortly before the record of the end."""


@dataclass(frozen=True, slots=True)
class RunWatcher:
    """Yields the records and the output of runs. The run does not depend on who watches it."""

    caller: BusCaller
    open_feed: OpenRunFeed

    async def watch_run(self, wanted: RunSelector) -> AsyncGenerator[RunRecord | RunEvent]:
        """Yield the record of the run, then its output from now on if it has a feed, and last its record at the end.

        Raises:
            RequestError: The project has no such run, or the sandbox is away.
        """
        await self.caller.call(GET_RUN, wanted)  # before the feed: it may be another project's
        async with self.open_feed(wanted.run_id) as events:
            run = await self.caller.call(GET_RUN, wanted)
            yield run
            if run.state is not RunState.RUNNING:
                return
            async with aclosing(yield_pauses(events, _LOOK_EVERY_S)) as parts:
                async for event in parts:
                    if event is not None and event.kind is not RunEventKind.ENDED:
                        yield event
                        continue
                    run = await self.caller.call(GET_RUN, wanted)
                    if run.state is not RunState.RUNNING:
                        yield run
                        return
