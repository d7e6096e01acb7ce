"""Indexes and their switches to other models."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path

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
from skillbus.gateway.service.documented_router import DocumentedRouter

AliasInPath = Annotated[
    str,
    Path(pattern=r"^[a-z0-9_-]{1,64}$", description="Alias: `tools`, `knowledge`, `devices` or `commands`."),
]


@dataclass(frozen=True, slots=True)
class IndexRoutes:
    """Handlers of indexes."""

    caller: BusCaller

    async def list_indexes(self) -> IndexesListed:
        """List the indexes with their models and the progress of their switches."""
        return await self.caller.call(LIST_INDEXES, Empty())

    async def start_switch(self, alias: AliasInPath) -> IndexState:
        """Start the switch of an index to the default model, also after a rollback. It continues after this reply."""
        return await self.caller.call(START_SWITCH, IndexSelector(alias=alias))

    async def roll_back(self, alias: AliasInPath) -> IndexState:
        """Roll the last switch back to the old collection, or abort a running switch."""
        return await self.caller.call(ROLL_BACK, IndexSelector(alias=alias))


def add_index_routes(router: DocumentedRouter, routes: IndexRoutes) -> None:
    """Add the routes of indexes."""
    system = router.for_system()
    router.add("GET", "/api/indexes", Role.READER, routes.list_indexes, LIST_INDEXES.errors)
    system.add("POST", "/api/indexes/{alias}/switch", Role.ADMIN, routes.start_switch, START_SWITCH.errors, status=202)
    system.add("POST", "/api/indexes/{alias}/rollback", Role.ADMIN, routes.roll_back, ROLL_BACK.errors)
