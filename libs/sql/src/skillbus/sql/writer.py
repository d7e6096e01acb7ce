"""The one thread that writes to a file of SQLite, with a connection of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

ResultT = TypeVar("ResultT")


class Writer:
    """Connection and thread are made when something is written first."""

    def __init__(self, engine: Engine) -> None:
        """`engine` makes connections for transactions that write."""
        self.engine = engine
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="sql-writes")

    def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Of its thread. Raises what `work` raises, and SQLAlchemyError."""
        with self.engine.connect() as connection, connection.begin():
            return work(connection)

    def close(self) -> None:
        """Waits for what is being written."""
        self.thread.shutdown()
        self.engine.dispose()
