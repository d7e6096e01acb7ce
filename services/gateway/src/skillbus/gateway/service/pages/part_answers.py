"""Parts of a page that may be missing: a service that is away leaves its part out, and the page says so."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillbus.contracts.errors import RequestError

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class PartAnswer(Generic[ValueT]):
    """Answer for one part of a page: `value`, or the `problem` that is shown in its place."""

    value: ValueT | None = None
    problem: RequestError | None = None

    @property
    def status(self) -> int:
        """Status of a page that is this answer."""
        return 200 if self.problem is None else self.problem.status


async def get_part(asking: Awaitable[ValueT]) -> PartAnswer[ValueT]:
    """Return the answer for a part, or its problem."""
    try:
        return PartAnswer(await asking)
    except RequestError as error:
        return PartAnswer(problem=error)
