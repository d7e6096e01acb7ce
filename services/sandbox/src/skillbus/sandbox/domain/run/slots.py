"""Slots of runs, which those who wait get in turn."""

import asyncio
from collections import OrderedDict, deque


class RunSlots:
    """Free slots and the callers that wait for one. Callers get slots in turn; the runs of a caller keep their order.

    So a caller that starts a hundred runs at once delays each run of another caller by one run, not by a hundred.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def take_free(self) -> bool:
        """Take a slot if one is free. Return True if it was taken."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def wait_for_turn(self, caller: str) -> asyncio.Future[None]:
        """Return a future that is done once a slot was given to this caller. Cancel it to give up."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        return turn

    def give_back(self) -> None:
        """Give a slot to the caller whose turn it is, or leave it free."""
        while self._waiting:
            caller, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
