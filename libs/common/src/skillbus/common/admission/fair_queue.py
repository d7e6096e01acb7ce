"""Queue that serves keys in turn, and more of the urgent kinds of work."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")


class WorkKind(IntEnum):
    """Kind of work, most urgent first."""

    READ = 0
    IMPORT = 1
    RUN = 2


_TURNS: Final = (1, 4, 16)
"""Turns that a request of each kind uses up: while all kinds wait, four reads are served for an import, and four
imports for a run. So what is urgent comes first, and the rest late instead of never."""


@dataclass(frozen=True, slots=True, order=True)
class _Place(Generic[ItemT]):
    turn: float
    number: int
    key: str = field(compare=False)
    item: ItemT = field(compare=False)


class FairQueue(Generic[ItemT]):
    """Start-time fair queueing (Goyal, Vin and Cheng 1996): each kind of work of each key is a flow.

    A request gets the turn after the last one of its flow, and not before the turn that is served now. The smallest
    turn is served first: each key gets an equal share, and one that was idle saves nothing up.
    """

    def __init__(self) -> None:
        self._heaps: tuple[list[_Place[ItemT]], ...] = tuple([] for _ in WorkKind)
        self._waiting: Counter[str] = Counter()
        self._next_turn: dict[tuple[str, WorkKind], float] = {}
        self._turn = 0.0
        self._numbers = self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def keys(self) -> int:
        """Number of keys that wait."""
        return len(self._waiting)

    def count_waiting(self, key: str) -> int:
        """Return how many requests of a key wait."""
        return self._waiting.get(key, 0)

    def count_turn(self, key: str, kind: WorkKind) -> float:
        """Count a request, and return its turn."""
        turn = max(self._turn, self._next_turn.get((key, kind), 0.0))
        self._next_turn[key, kind] = turn + _TURNS[kind]
        return turn

    def push(self, key: str, kind: WorkKind, item: ItemT) -> None:
        """Add an item."""
        self._numbers += 1
        heappush(self._heaps[kind], _Place(self.count_turn(key, kind), self._numbers, key, item))
        self._waiting[key] += 1
        self._size += 1

    def pop(self, may_start: Callable[[WorkKind], bool]) -> tuple[WorkKind, ItemT] | None:
        """Remove and return the next item whose kind may start; None if there is none."""
        ready = [(heap[0], WorkKind(kind)) for kind, heap in enumerate(self._heaps) if heap]
        ready = [(place, kind) for place, kind in ready if may_start(kind)]
        if not ready:
            return None
        place, kind = min(ready)
        heappop(self._heaps[kind])
        self._turn = max(self._turn, place.turn)
        self._uncount(place.key)
        return kind, place.item

    def remove(self, is_unwanted: Callable[[ItemT], bool]) -> list[ItemT]:
        """Remove and return items."""
        removed = []
        for heap in self._heaps:
            unwanted = [place for place in heap if is_unwanted(place.item)]
            if unwanted:
                heap[:] = [place for place in heap if not is_unwanted(place.item)]
                heapify(heap)
            for place in unwanted:
                self._uncount(place.key)
                removed.append(place.item)
        return removed

    def _uncount(self, key: str) -> None:
        self._size -= 1
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]

    def forget_turns(self) -> None:
        """Forget the turns of all keys, when nothing waits or is in flight."""
        self._next_turn.clear()
        self._turn = 0.0
