"""Database errors. Each message says what to do and hides the password.

DatabaseError
├── DatabaseUnavailableError      the database does not answer or cannot be opened
│   ├── DatabaseUrlError          the URL names no supported database
│   ├── DatabaseVersionError      a newer skillbus created the tables
│   ├── DatabaseBusyError         others hold a lock or all connections for too long
│   ├── DatabaseFullError         the disk is full
│   └── DatabaseReadOnlyError     the database refuses writes
└── ConstraintError               a write violates a constraint of the tables
"""


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
