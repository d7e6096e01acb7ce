"""Errors of drivers as ours, told apart by the codes of SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from skillbus.sql.errors import (
    ConstraintError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseUnavailableError,
)

_SQLITE: Final[Mapping[int, type[DatabaseError]]] = {
    sqlite3.SQLITE_BUSY: DatabaseBusyError,
    sqlite3.SQLITE_LOCKED: DatabaseBusyError,
    sqlite3.SQLITE_READONLY: DatabaseReadOnlyError,
    sqlite3.SQLITE_FULL: DatabaseFullError,
}
"""By primary result code. Source: sqlite.org/rescode.html."""
_POSTGRESQL: Final[Mapping[str, type[DatabaseError]]] = {
    "25006": DatabaseReadOnlyError,
    "40001": DatabaseBusyError,
    "40P01": DatabaseBusyError,
    "53000": DatabaseBusyError,
    "53100": DatabaseFullError,
    "53300": DatabaseBusyError,
    "55P03": DatabaseBusyError,
}
"""By SQLSTATE. Source: postgresql.org, appendix A."""
_ADVICE: Final[Mapping[type[DatabaseError], str]] = {
    DatabaseBusyError: "others are using it: try again, and see what holds it for so long",
    DatabaseFullError: "it has no room left: free some on its disk, then try again",
    DatabaseReadOnlyError: "it may only be read: let its user write to it, or name another",
}


@contextmanager
def failures(url: URL) -> Generator[None]:
    """What a database does instead of answering, as an error of ours, without the password of its URL."""
    try:
        yield
    except IntegrityError as error:
        raise ConstraintError(f"{_named(url)} refuses it: {error.orig}") from error
    except DBAPIError as error:
        raise _told_apart(url, error) from error
    except NoConnectionError as error:
        raise DatabaseBusyError(f"all connections to {_named(url)} are taken: {_ADVICE[DatabaseBusyError]}") from error
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        raise _unavailable(url, error) from error


def _told_apart(url: URL, error: DBAPIError) -> DatabaseError:
    reason = error.orig or error
    kind = _kind(reason)
    if kind is None:
        return _unavailable(url, reason)
    return kind(f"{_named(url)} cannot be used: {reason}; {_ADVICE[kind]}")


def _kind(reason: BaseException) -> type[DatabaseError] | None:
    if isinstance(reason, sqlite3.Error):
        return _SQLITE.get(getattr(reason, "sqlite_errorcode", 0) & 0xFF)
    return _POSTGRESQL.get(getattr(reason, "sqlstate", None) or "")


def _unavailable(url: URL, reason: BaseException) -> DatabaseUnavailableError:
    if url.get_backend_name() == "sqlite":
        return DatabaseUnavailableError(
            f"{_named(url)} cannot be used: {reason}; see that its folder is there and may be written"
        )
    return DatabaseUnavailableError(
        f"{_named(url)} does not answer: {reason}; see that it runs and that user and password are right"
    )


def _named(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    return f"the database {url.render_as_string(hide_password=True)}"
