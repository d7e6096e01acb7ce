"""Live output of runs, from the bus."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from nats.aio.client import Client

from skillbus.common.bus.feeds import subscribe_to_feed
from skillbus.contracts.sandbox.run_history import RUN_PRINTED, RunEvent


class BusRunFeed:
    """`RunFeed` over a NATS connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def listen(self, run_id: str) -> AbstractAsyncContextManager[AsyncIterator[RunEvent]]:
        return subscribe_to_feed(self._client, RUN_PRINTED, run_id)
