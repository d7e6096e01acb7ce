"""The SQL database of the knowledge base. The one place that translates its failures into the learner's errors."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar

from sqlalchemy import Connection, delete, insert, select

from skillbus.learner.adapters.sql.tables import IDEMPOTENCY
from skillbus.learner.domain.errors import KnowledgeFullError, KnowledgeUnavailableError
from skillbus.sql.database import Database
from skillbus.sql.errors import DatabaseFullError, DatabaseUnavailableError

ResultT = TypeVar("ResultT")

_PROBE_ROW: Final[Mapping[str, object]] = {
    "project": "",  # no project has this name
    "key": "",
    "request_digest": "",
    "id": "",
    "version": 0,
    "at": datetime(1970, 1, 1, tzinfo=UTC),
}


class KnowledgeDatabase:
    """Transactions on the tables of the knowledge base."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Run `work` on one snapshot and return its result. Raises KnowledgeUnavailableError."""
        with _translate_unavailability():
            return await self._database.read(work)

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Run `work` in a transaction that is committed unless `work` raises, and return its result.

        Raises:
            KnowledgeUnavailableError: the database does not answer or cannot commit.
            ConstraintError: a concurrent transaction wrote the same.
        """
        with _translate_unavailability():
            return await self._database.write(work)

    async def check_record(self) -> None:
        """Return if the database answers and committed the last write. Raises KnowledgeUnavailableError."""
        await self.read(lambda connection: connection.execute(select(1)).scalar())
        if (problem := self._database.write_problem) is not None:
            raise KnowledgeUnavailableError(problem)

    async def retry_write(self) -> bool:
        """Write and delete a probe row if the last write failed; no request may write for a long time.

        Returns False: there is nothing more to do. Raises KnowledgeUnavailableError if the write fails again.
        """

        def write_probe(connection: Connection) -> None:
            connection.execute(insert(IDEMPOTENCY).values(_PROBE_ROW))
            connection.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.project == _PROBE_ROW["project"]))

        if self._database.write_problem is not None:
            await self.write(write_probe)
        return False


@contextmanager
def _translate_unavailability() -> Generator[None]:
    try:
        yield
    except DatabaseFullError as error:
        raise KnowledgeFullError(str(error)) from error
    except DatabaseUnavailableError as error:
        raise KnowledgeUnavailableError(str(error)) from error
