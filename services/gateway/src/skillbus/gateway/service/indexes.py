"""Indexes and their switches to other models."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Path, Request, Response

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.indexer.index_switch import (
    LIST_INDEXES,
    ROLL_BACK,
    START_SWITCH,
    IndexesListed,
    IndexSelector,
    IndexState,
)
from skillbus.contracts.message import Empty
from skillbus.gateway.domain.ports import BusCaller
from skillbus.gateway.domain.switch_follower import SwitchFollower, has_switch
from skillbus.gateway.service.documented_router import Documented, DocumentedRouter
from skillbus.gateway.service.event_stream import EVENT_STREAM, PartStream, StateWriter, open_part_stream

AliasInPath = Annotated[
    str,
    Path(pattern=r"^[a-z0-9_-]{1,64}$", description="Alias: `tools`, `knowledge`, `devices` or `commands`."),
]


@dataclass(frozen=True, slots=True)
class IndexRoutes:
    """Handlers of indexes."""

    caller: BusCaller
    follower: SwitchFollower

    async def list_indexes(self) -> IndexesListed:
        """List the indexes with their models and the progress of their switches."""
        return await self.caller.call(LIST_INDEXES, Empty())

    async def follow_indexes(self, request: Request) -> Response:
        """Follow switches as Server-Sent Events: `progress` with all indexes at each step, and last `ended`.

        The stream ends when no index is switched: at once if none is. If the indexer is away in between, the last event
        is `error` with a problem document.
        """
        states = self.follower.follow_switches()
        return await open_part_stream(states, StateWriter(request.url.path, lambda listed: not has_switch(listed)))

    async def start_switch(self, alias: AliasInPath) -> IndexState:
        """Start the switch of an index to the default model, also after a rollback. It continues after this reply."""
        return await self.caller.call(START_SWITCH, IndexSelector(alias=alias))

    async def roll_back(self, alias: AliasInPath) -> IndexState:
        """Roll the last switch back to the old collection, or abort a running switch."""
        return await self.caller.call(ROLL_BACK, IndexSelector(alias=alias))


_EVENTS: Final[Documented] = {
    200: {
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string", "description": "`progress`, then `ended`, with an `IndexesListed`."}
            }
        }
    }
}


def add_index_routes(router: DocumentedRouter, routes: IndexRoutes) -> None:
    """Add the routes of indexes."""
    system = router.for_system()
    router.add("GET", "/api/indexes", Role.READER, routes.list_indexes, LIST_INDEXES.errors)
    events = router.with_replies(_EVENTS).for_streams()
    events.add(
        "GET", "/api/indexes/events", Role.READER, routes.follow_indexes, LIST_INDEXES.errors, response=PartStream
    )
    system.add("POST", "/api/indexes/{alias}/switch", Role.ADMIN, routes.start_switch, START_SWITCH.errors, status=202)
    system.add("POST", "/api/indexes/{alias}/rollback", Role.ADMIN, routes.roll_back, ROLL_BACK.errors)
