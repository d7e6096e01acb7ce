"""Answers of chat models, by the digest of what they were asked."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from skillbus.common.chat.structured_answer import AnswerMode, RawAnswer
from skillbus.learner.adapters.sql.knowledge_database import KnowledgeDatabase
from skillbus.learner.adapters.sql.tables import LEARNING_ANSWERS
from skillbus.sql.errors import ConstraintError

_KEPT: Final = timedelta(days=30)
_rows = LEARNING_ANSWERS.c


@dataclass(frozen=True, slots=True)
class SqlAnswerCache:
    """An `AnswerCache` of thirty days."""

    database: KnowledgeDatabase
    now: Callable[[], datetime]

    async def get_answer(self, key: str) -> tuple[AnswerMode, RawAnswer] | None:
        query = select(LEARNING_ANSWERS).where(_rows.key == key, _rows.at >= self.now() - _KEPT)
        row = await self.database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else (AnswerMode(row.mode), RawAnswer(row.text, row.model, row.tokens))

    async def put_answer(self, key: str, mode: AnswerMode, answer: RawAnswer) -> None:
        at = self.now()
        values = {"key": key, "mode": mode.value, "text": answer.text, "model": answer.model, "tokens": answer.tokens}

        def work(connection: Connection) -> None:
            connection.execute(delete(LEARNING_ANSWERS).where((_rows.key == key) | (_rows.at < at - _KEPT)))
            connection.execute(insert(LEARNING_ANSWERS).values(values | {"at": at}))

        with suppress(ConstraintError):  # another job has just kept its answer to the same digest
            await self.database.write(work)
