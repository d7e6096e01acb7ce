"""Sources from which nothing is learned, in their table."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from skillbus.contracts.learner.learning_jobs import LearningSwitch, ListLearningSources, SetLearningSource
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import LEARNING_SOURCES_OFF
from skillbus.learner.domain.errors import ConcurrentChangeError
from skillbus.sql.errors import ConstraintError

_off = LEARNING_SOURCES_OFF.c


@dataclass(frozen=True, slots=True)
class SqlSourceSwitches:
    """Rows of sources that are off. A source without a row is on."""

    database: KnowledgeDatabase

    async def is_off(self, project: str, source: str) -> bool:
        row = select(_off.source).where(_off.project == project, _off.source == source)
        return await self.database.read(lambda connection: connection.execute(row).scalar()) is not None

    async def set_switch(self, request: SetLearningSource, at: datetime) -> LearningSwitch:
        def work(connection: Connection) -> None:
            key = (_off.project == request.project, _off.source == request.source)
            connection.execute(delete(LEARNING_SOURCES_OFF).where(*key))
            if not request.enabled:
                row = {"project": request.project, "source": request.source, "at": at, "actor": request.actor}
                connection.execute(insert(LEARNING_SOURCES_OFF).values(row))

        try:
            await self.database.write(work)
        except ConstraintError as error:
            raise ConcurrentChangeError from error
        return LearningSwitch(source=request.source, enabled=request.enabled, at=at, by=request.actor)

    async def list_off(self, wanted: ListLearningSources) -> list[LearningSwitch]:
        page = select(_off.source, _off.at, _off.actor).where(_off.project == wanted.project)
        if wanted.after is not None:
            page = page.where(_off.source > wanted.after)
        page = page.order_by(_off.source).limit(wanted.limit + 1)

        def work(connection: Connection) -> list[LearningSwitch]:
            return [
                LearningSwitch(source=row.source, enabled=False, at=row.at, by=row.actor)
                for row in connection.execute(page)
            ]

        return await self.database.read(work)
