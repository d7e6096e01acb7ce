"""Follows the switches of the indexes to another model, until none goes on."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.indexer.index_switch import LIST_INDEXES, IndexesListed, IndexState, SwitchPhase
from skillbus.contracts.message import Empty
from skillbus.gateway.domain.feed_pauses import yield_pauses
from skillbus.gateway.domain.ports import BusCaller, OpenSwitchFeed

_RUNNING: Final = frozenset({SwitchPhase.BUILDING, SwitchPhase.BACKFILLING, SwitchPhase.VERIFYING})
_LOOK_EVERY_S: Final = 15.0
"""Longest silence. An event can be lost; then the indexer itself says how far the switches are."""


@dataclass(frozen=True, slots=True)
class SwitchFollower:
    """Yields the states of the indexes while one of them is switched."""

    caller: BusCaller
    open_feed: OpenSwitchFeed

    async def follow_switches(self) -> AsyncGenerator[IndexesListed]:
        """Yield the indexes now and after each step of a switch, last when no index is switched.

        Raises:
            RequestError: The indexer is away.
        """
        async with self.open_feed() as events:
            listed = await self.caller.call(LIST_INDEXES, Empty())
            yield listed
            async with aclosing(yield_pauses(events, _LOOK_EVERY_S)) as parts:
                while has_switch(listed):
                    await anext(parts)
                    before, listed = listed, await self.caller.call(LIST_INDEXES, Empty())
                    if listed != before:
                        yield listed


def is_switched(index: IndexState) -> bool:
    """Return True while an index is switched to another model."""
    return index.switch is not None and index.switch.phase in _RUNNING


def has_switch(listed: IndexesListed) -> bool:
    """Return True while one of the indexes is switched."""
    return any(is_switched(index) for index in listed.indexes)
