"""Transactions on PostgreSQL, by asyncpg."""

from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine

from skillbus.sql.errors import DatabaseUrlError

ResultT = TypeVar("ResultT")

_CONNECT_S: Final = 5.0
_COMMAND_S: Final = 10.0
_POOL_S: Final = 10.0
"""Longest wait for a free connection."""


class PostgresqlTransactions:
    """Transactions on a pool of connections. A connection that died while idle is replaced before it is used."""

    def __init__(self, url: URL) -> None:
        query = dict(url.query)
        if (sslmode := query.pop("sslmode", None)) is not None:  # libpq's name for asyncpg's `ssl`
            query["ssl"] = sslmode
        try:
            self._engine = create_async_engine(
                url.set(drivername="postgresql+asyncpg", query=query),
                connect_args={"timeout": _CONNECT_S, "command_timeout": _COMMAND_S},
                pool_pre_ping=True,
                pool_timeout=_POOL_S,
                hide_parameters=True,
            )
        except ModuleNotFoundError as error:
            raise DatabaseUrlError(
                "PostgreSQL needs a driver that is not installed: pip install 'skillbus-sql[postgres]'"
            ) from error
        self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        async with self._snapshots.begin() as connection:
            return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        async with self._engine.begin() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()
