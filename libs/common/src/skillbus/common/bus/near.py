"""Services of this process, for those of its requests that need not leave it.

In standalone a search asks the embedder and the record, which are in the same process: over the server each request
and each reply takes an encoding, a way through two sockets, a decoding and several turns of the loop. Here the values
of the contract, which are frozen, are handed over as they are; permits, deadlines, counts and errors are those of the
bus. Who asks says that this will do (`Caller.call`), and where no such service is in the process the bus is asked.
"""

import asyncio
from typing import Protocol

from skillbus.contracts.errors import RequestError
from skillbus.contracts.message import Message


class NearEndpoint(Protocol):
    """An endpoint of this process."""

    def take(self, request: Message, until: float) -> asyncio.Future[Message | RequestError]:
        """Answer a request by `until`, in Unix seconds. It is answered whether somebody still waits or not.

        Raises RequestError when all permits are taken.
        """
        ...


class Near:
    """Endpoints by subject, while they take requests."""

    def __init__(self) -> None:
        self._endpoints: dict[str, NearEndpoint] = {}

    def find(self, subject: str) -> NearEndpoint | None:
        """Who answers this subject in this process."""
        return self._endpoints.get(subject)

    def add(self, subject: str, endpoint: NearEndpoint) -> None:
        """It takes requests from now on."""
        self._endpoints[subject] = endpoint

    def remove(self, subject: str, endpoint: NearEndpoint) -> None:
        """It takes no more."""
        if self._endpoints.get(subject) is endpoint:
            del self._endpoints[subject]
