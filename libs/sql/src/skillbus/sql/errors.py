"""Database errors, and their translation from the drivers' errors by the codes of SQLite and PostgreSQL.

Each message says what to do and hides the password.

DatabaseError
├── DatabaseUnavailableError      the database does not answer or cannot be opened
│   ├── DatabaseUrlError          the URL names no supported database
│   ├── DatabaseVersionError      a newer skillbus created the tables
│   ├── DatabaseBusyError         others hold a lock or all connections for too long
│   ├── DatabaseFullError         the disk is full
│   └── DatabaseReadOnlyError     the database refuses writes
└── ConstraintError               a write violates a constraint of the tables
"""

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError


class DatabaseError(Exception):
    pass


class DatabaseUnavailableError(DatabaseError):
    pass


class DatabaseUrlError(DatabaseUnavailableError):
    pass


class DatabaseVersionError(DatabaseUnavailableError):
    pass


class DatabaseBusyError(DatabaseUnavailableError):
    pass


class DatabaseFullError(DatabaseUnavailableError):
    pass


class DatabaseReadOnlyError(DatabaseUnavailableError):
    pass


class ConstraintError(DatabaseError):
    pass


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
    DatabaseBusyError: "others are using it: try again, and find out what holds it for so long",
    DatabaseFullError: "it has no room left: free some on its disk, then try again",
    DatabaseReadOnlyError: "it is read-only: let its user write to it, or name another",
}


@contextmanager
def translate_failures(url: URL) -> Generator[None]:
    """Raise errors of SQLAlchemy and of drivers as DatabaseError, without the password of the URL."""
    try:
        yield
    except IntegrityError as error:
        raise ConstraintError(f"{_name_database(url)} refuses it: {error.orig}") from error
    except DBAPIError as error:
        reason = error.orig or error
        if isinstance(reason, sqlite3.Error):
            kind = _SQLITE.get(getattr(reason, "sqlite_errorcode", 0) & 0xFF)
        else:
            kind = _POSTGRESQL.get(getattr(reason, "sqlstate", None) or "")
        if kind is None:
            raise _unavailable(url, reason) from error
        raise kind(f"{_name_database(url)} cannot be used: {reason}; {_ADVICE[kind]}") from error
    except NoConnectionError as error:
        advice = _ADVICE[DatabaseBusyError]
        raise DatabaseBusyError(f"all connections to {_name_database(url)} are taken: {advice}") from error
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        raise _unavailable(url, error) from error


def _unavailable(url: URL, reason: BaseException) -> DatabaseUnavailableError:
    if url.get_backend_name() == "sqlite":
        failure, advice = "cannot be used", "check that its folder exists and can be written"
    else:
        failure, advice = "does not answer", "check that it runs and that user and password are right"
    return DatabaseUnavailableError(f"{_name_database(url)} {failure}: {reason}; {advice}")


def _name_database(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    return f"the database {url.render_as_string(hide_password=True)}"
