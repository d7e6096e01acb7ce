"""What a database does instead of answering. The messages say what to do, and show no password.

DatabaseError
├── DatabaseUnavailableError      it does not answer, or cannot be opened
│   ├── DatabaseUrlError          the URL names no database that can be opened here
│   ├── DatabaseVersionError      a newer skillbus made the tables
│   ├── DatabaseBusyError         others write, or hold what is needed, for too long
│   ├── DatabaseFullError         there is no room for what is written
│   └── DatabaseReadOnlyError     nothing may be written
└── ConstraintError               what was written breaks a rule of the tables
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
