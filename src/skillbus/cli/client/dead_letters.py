"""Client for dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillbus.cli.client.paths import DEAD_LETTERS, join_path
from skillbus.contracts.indexer.dead_letters import (
    MAX_DEAD_LETTERS,
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLettersListed,
    DeadLetterSummary,
)

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection


@dataclass(frozen=True, slots=True)
class DeadLettersClient:
    """Each method is one request, except `list_all`, which requests page after page."""

    connection: ApiConnection

    async def list_all(self, consumer: str | None, limit: int) -> DeadLettersListed:
        """Return the oldest `limit` dead letters, and their total number."""
        found: list[DeadLetterSummary] = []
        after = 0
        while True:
            params = {"after": str(after), "limit": str(min(MAX_DEAD_LETTERS, limit - len(found)))}
            if consumer is not None:
                params["consumer"] = consumer
            page = await self.connection.request(DeadLettersListed, "GET", DEAD_LETTERS, params=params)
            found += page.dead_letters
            if page.next is None or len(found) >= limit:
                return page.model_copy(update={"dead_letters": tuple(found)})
            after = page.next

    async def get(self, sequence: int) -> DeadLetter:
        """Return a dead letter with its event."""
        return await self.connection.request(DeadLetter, "GET", join_path(DEAD_LETTERS, str(sequence)))

    async def replay(self, sequence: int) -> DeadLetterReplayed:
        """Publish the event of a dead letter again."""
        path = join_path(DEAD_LETTERS, str(sequence), "replay")
        return await self.connection.request(DeadLetterReplayed, "POST", path)

    async def drop(self, sequence: int) -> DeadLetterDropped:
        """Delete a dead letter."""
        return await self.connection.request(DeadLetterDropped, "DELETE", join_path(DEAD_LETTERS, str(sequence)))
