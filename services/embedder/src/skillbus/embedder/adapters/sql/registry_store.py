"""SQL store of the registry: providers and models in two tables, their revision in a third."""

from collections.abc import AsyncGenerator, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Column, Connection, delete, insert, select, update

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.contracts.validation import describe_problems
from skillbus.embedder.adapters.sql.tables import MODELS, PROVIDERS, SCHEMA, STATE
from skillbus.embedder.domain.registry.errors import (
    RegistryStorageFullError,
    RegistryUnavailableError,
    RegistryUrlError,
    RegistryVersionError,
)
from skillbus.embedder.domain.registry.ports import Records
from skillbus.sql.database import Database, open_database
from skillbus.sql.errors import DatabaseError, DatabaseFullError, DatabaseUrlError, DatabaseVersionError

Values = Mapping[str, object]


class SqlRegistryStore:
    """Implementation of `RegistryStore`. `replace` compares and sets the revision: the second of two writers loses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Records:
        def work(connection: Connection) -> Records:
            revision = connection.execute(select(STATE.c.revision)).scalar_one()
            providers = connection.execute(select(PROVIDERS).order_by(PROVIDERS.c.name)).mappings()
            models = connection.execute(select(MODELS).order_by(MODELS.c.id)).mappings()
            return Records(
                revision,
                tuple(ProviderRecord.model_validate(_read_provider_row(row)) for row in providers),
                tuple(ModelRecord.model_validate({**row, "fingerprint": None}) for row in models),
            )

        with translate_errors():
            return await self._database.read(work)

    async def replace(self, seen: Records, new: Records) -> bool:
        def work(connection: Connection) -> bool:
            raised = connection.execute(
                update(STATE).where(STATE.c.revision == seen.revision).values(revision=seen.revision + 1)
            )
            if raised.rowcount != 1:
                return False
            # Parents first, and at most one default of a kind: no constraint forbids an intermediate state.
            providers, models = _list_provider_rows(new), _list_model_rows(new)
            old_providers, old_models = _list_provider_rows(seen), _list_model_rows(seen)
            _delete_rows(connection, MODELS.c.id, old_models.keys() - models.keys())
            _delete_rows(connection, PROVIDERS.c.name, old_providers.keys() - providers.keys())
            _write_rows(connection, PROVIDERS.c.name, providers, old_providers)
            _write_rows(connection, MODELS.c.id, models, old_models)
            return True

        with translate_errors():
            return await self._database.write(work)


@asynccontextmanager
async def open_registry_store(url: str) -> AsyncGenerator[SqlRegistryStore]:
    """Open the store in the database of this URL. Create its tables or migrate them first.

    Raises RegistryUnavailableError; its message says what to do, without the password.
    """
    async with AsyncExitStack() as stack:
        with translate_errors():
            database = await stack.enter_async_context(open_database(url, SCHEMA))
        yield SqlRegistryStore(database)


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate errors of the database, and invalid records, to the registry's errors."""
    try:
        yield
    except ValidationError as error:
        problems = describe_problems(error)
        raise RegistryUnavailableError(
            f"a {error.title} in the database is not as skillbus writes it ({problems}): correct it there"
        ) from error
    except DatabaseUrlError as error:
        raise RegistryUrlError(str(error)) from error
    except DatabaseVersionError as error:
        raise RegistryVersionError(str(error)) from error
    except DatabaseFullError as error:
        raise RegistryStorageFullError(str(error)) from error
    except DatabaseError as error:
        raise RegistryUnavailableError(str(error)) from error


def _list_provider_rows(records: Records) -> dict[str, Values]:
    """Write 0 for an absent number of requests at the same time: the column takes no NULL."""
    return {
        provider.name: {**provider.model_dump(), "max_concurrency": provider.max_concurrency or 0}
        for provider in records.providers
    }


def _read_provider_row(row: Mapping[Any, Any]) -> Values:
    return {**row, "max_concurrency": row["max_concurrency"] or None}


def _list_model_rows(records: Records) -> dict[str, Values]:
    """List the defaults last: an old default must be cleared before a new one is set."""
    models = sorted(records.models, key=lambda model: model.is_default)
    return {model.id: model.model_dump(exclude={"fingerprint"}) for model in models}


def _delete_rows(connection: Connection, key: Column[str], deleted: AbstractSet[str]) -> None:
    if deleted:
        connection.execute(delete(key.table).where(key.in_(deleted)))


def _write_rows(
    connection: Connection, key: Column[str], rows: Mapping[str, Values], old: Mapping[str, Values]
) -> None:
    for name, values in rows.items():
        if name not in old:
            connection.execute(insert(key.table).values(values))
        elif values != old[name]:
            connection.execute(update(key.table).where(key == name).values(values))
