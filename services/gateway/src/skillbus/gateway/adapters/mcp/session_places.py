"""Limit of the MCP sessions that each key has open. It holds for each replica."""

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.gateway.domain.access.principal import Principal

SESSIONS_OF_KEY: Final = 32
SESSION_IDLE_S: Final = 30 * 60.0
"""Time without a request after which a session ends."""
_RETRY_AFTER_S: Final = 60


@dataclass(slots=True)
class _Place:
    """Place of one session. The request that opens the session holds it, and then the session itself."""

    key: str
    holders: int = 0


_current: ContextVar[_Place] = ContextVar("place of an MCP session")
"""Place of the request that is handled. The tasks of the session that it opens inherit it."""


class SessionPlaces:
    """Counter of the sessions of each key."""

    def __init__(self) -> None:
        self._taken = Counter[str]()

    @contextmanager
    def hold_place(self, caller: Principal) -> Generator[None]:
        """Hold a place while a request without a session is handled.

        Raises:
            RequestError: `overloaded`: the key has as many sessions as it may have.
        """
        if caller.has_limits and self._taken[caller.name] >= SESSIONS_OF_KEY:
            raise RequestError(
                ErrorCode.OVERLOADED,
                f"The key has {SESSIONS_OF_KEY} MCP sessions open: end one with `DELETE /mcp`, or wait until one ends "
                f"after {SESSION_IDLE_S / 60:.0f} minutes without a request.",
                details={"retry_after_s": _RETRY_AFTER_S, "limit_of": "key"},
            )
        place = _Place(caller.name)
        token = _current.set(place)
        try:
            with self._hold(place):
                yield
        finally:
            _current.reset(token)

    @asynccontextmanager
    async def hold_for_session(self, _: object) -> AsyncGenerator[dict[str, object]]:
        """Hold the place of the opening request until the session ends. The SDK enters this with each session."""
        with self._hold(_current.get()):
            yield {}

    @contextmanager
    def _hold(self, place: _Place) -> Generator[None]:
        self._taken[place.key] += place.holders == 0
        place.holders += 1
        try:
            yield
        finally:
            place.holders -= 1
            self._taken[place.key] -= place.holders == 0
