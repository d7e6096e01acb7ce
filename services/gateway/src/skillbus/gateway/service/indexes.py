"""Which model's vectors are searched, and the change to another one."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path

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
from skillbus.gateway.service.documented_router import DocumentedRouter

AliasInPath = Annotated[str, Path(pattern=r"^[a-z0-9_-]{1,64}$", description="`tools`")]


@dataclass(frozen=True, slots=True)
class IndexRoutes:
    """The handlers, over what they need."""

    caller: BusCaller

    async def list_indexes(self) -> IndexesListed:
        """What is searched, with vectors of which model, and how far a change to another one is."""
        return await self.caller.call(LIST_INDEXES, Empty())

    async def start_switch(self, alias: AliasInPath) -> IndexState:
        """Take an index to the default model now, also after a rollback. It goes on after this answer."""
        return await self.caller.call(START_SWITCH, IndexSelector(alias=alias))

    async def roll_back(self, alias: AliasInPath) -> IndexState:
        """Go back to what was searched before the last switch, or give up one that runs."""
        return await self.caller.call(ROLL_BACK, IndexSelector(alias=alias))


def add_index_routes(to: DocumentedRouter, routes: IndexRoutes) -> None:
    """Put them under their paths."""
    to.add("GET", "/api/indexes", routes.list_indexes, LIST_INDEXES.errors)
    to.add("POST", "/api/indexes/{alias}/switch", routes.start_switch, START_SWITCH.errors, status=202)
    to.add("POST", "/api/indexes/{alias}/rollback", routes.roll_back, ROLL_BACK.errors)
