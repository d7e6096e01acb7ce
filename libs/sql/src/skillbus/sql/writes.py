"""Writes of several statements, in as few steps as the database allows.

On SQLite the asynchronous driver goes to its thread and back for each statement, and nobody else may write until the
last of them is through: beside many searches in one loop a transaction of 5 ms took half a second. Here a whole
transaction goes to a thread once.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from skillbus.sql.engine import remembered, turn, writer_of, writing
from skillbus.sql.failures import failures

ResultT = TypeVar("ResultT")


async def written(engine: AsyncEngine, work: Callable[[Connection], ResultT]) -> ResultT:
    """What `work` gives, in a transaction that is kept when it ends without an error. As `writing`, otherwise.

    On SQLite whoever is cancelled does not know whether it was kept.
    """
    writer = writer_of(engine)
    if writer is None:
        async with writing(engine) as connection:
            return await connection.run_sync(work)
    async with turn(engine):
        with remembered(engine), failures(engine.url):
            return await asyncio.get_running_loop().run_in_executor(writer.thread, writer.write, work)
