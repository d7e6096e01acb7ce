"""Dead letters: events that a consumer gave up on."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.dead_letters import (
    DROP_DEAD_LETTER,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    MAX_DEAD_LETTERS,
    REPLAY_DEAD_LETTER,
    DeadLetter,
    DeadLetterDropped,
    DeadLetterReplayed,
    DeadLetterSelector,
    DeadLettersListed,
    ListDeadLetters,
)
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.service.documented_router import DocumentedRouter

SequenceInPath = Annotated[int, Path(ge=1, le=2**53, description="Number of the dead letter.")]


@dataclass(frozen=True, slots=True)
class DeadLetterRoutes:
    """Handlers of dead letters."""

    caller: BusCaller

    async def list_dead_letters(
        self,
        consumer: Annotated[
            str | None, Query(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Only those of this consumer.")
        ] = None,
        after: Annotated[int, Query(ge=0, le=2**53, description="`next` of the previous page.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_DEAD_LETTERS, description="Most dead letters in the page.")] = 100,
    ) -> DeadLettersListed:
        """List the events that consumers gave up on, oldest first."""
        return await self.caller.call(LIST_DEAD_LETTERS, ListDeadLetters(consumer=consumer, after=after, limit=limit))

    async def get_dead_letter(self, sequence: SequenceInPath) -> DeadLetter:
        """Return a dead letter with its event."""
        return await self.caller.call(GET_DEAD_LETTER, DeadLetterSelector(sequence=sequence))

    async def replay_dead_letter(self, sequence: SequenceInPath) -> DeadLetterReplayed:
        """Publish the event again, and delete the dead letter once the event is stored."""
        return await self.caller.call(REPLAY_DEAD_LETTER, DeadLetterSelector(sequence=sequence))

    async def drop_dead_letter(self, sequence: SequenceInPath) -> DeadLetterDropped:
        """Delete a dead letter without replaying it."""
        return await self.caller.call(DROP_DEAD_LETTER, DeadLetterSelector(sequence=sequence))


def add_dead_letter_routes(router: DocumentedRouter, routes: DeadLetterRoutes) -> None:
    """Add the routes of dead letters."""
    system = router.for_system()
    path = "/api/dead-letters"
    system.add("GET", path, Role.ADMIN, routes.list_dead_letters, LIST_DEAD_LETTERS.errors)
    system.add("GET", f"{path}/{{sequence}}", Role.ADMIN, routes.get_dead_letter, GET_DEAD_LETTER.errors)
    system.add("POST", f"{path}/{{sequence}}/replay", Role.ADMIN, routes.replay_dead_letter, REPLAY_DEAD_LETTER.errors)
    system.add("DELETE", f"{path}/{{sequence}}", Role.ADMIN, routes.drop_dead_letter, DROP_DEAD_LETTER.errors)
