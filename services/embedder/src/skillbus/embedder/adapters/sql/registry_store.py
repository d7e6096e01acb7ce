"""The records of the registry in two tables, and their revision in a third."""

from collections.abc import AsyncGenerator, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from pydantic import ValidationError
from sqlalchemy import Column, Connection, Row, delete, insert, select, update

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.adapters.sql.tables import MODELS, PROVIDERS, SCHEMA, STATE
from skillbus.embedder.domain.registry.errors import (
    RegistryUnavailableError,
    RegistryUrlError,
    RegistryVersionError,
)
from skillbus.embedder.domain.registry.ports import Records
from skillbus.sql.database import Database, open_database
from skillbus.sql.errors import DatabaseError, DatabaseUrlError, DatabaseVersionError

Values = Mapping[str, object]


class SqlRegistryStore:
    """`replace` is kept only if the revision is still the one that was seen: whoever comes second learns so."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Records:
        with registry_errors():
            return await self._database.read(_load)

    async def replace(self, seen: Records, new: Records) -> bool:
        def work(connection: Connection) -> bool:
            raised = connection.execute(
                update(STATE).where(STATE.c.revision == seen.revision).values(revision=seen.revision + 1)
            )
            if raised.rowcount != 1:
                return False
            _write(connection, seen, new)
            return True

        with registry_errors():
            return await self._database.write(work)


@asynccontextmanager
async def open_registry_store(url: str) -> AsyncGenerator[SqlRegistryStore]:
    """The store in the database of this URL, whose tables are made or brought to their last form first.

    Raises:
        RegistryUnavailableError: the database cannot be opened; the message says what to do, and shows no password.
    """
    async with AsyncExitStack() as stack:
        with registry_errors():
            database = await stack.enter_async_context(open_database(url, SCHEMA))
        yield SqlRegistryStore(database)


@contextmanager
def registry_errors() -> Generator[None]:
    """The errors of the database as the registry's."""
    try:
        yield
    except DatabaseUrlError as error:
        raise RegistryUrlError(str(error)) from error
    except DatabaseVersionError as error:
        raise RegistryVersionError(str(error)) from error
    except DatabaseError as error:
        raise RegistryUnavailableError(str(error)) from error


@contextmanager
def _valid() -> Generator[None]:
    try:
        yield
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc']}: {fault['msg']}" for fault in error.errors(include_input=False))
        raise RegistryUnavailableError(
            f"a {error.title} in the database is not as skillbus writes them ({faults}): correct it there"
        ) from error


def _provider(row: Row[tuple[object, ...]]) -> ProviderRecord:
    return ProviderRecord.model_validate(dict(row._mapping))  # noqa: SLF001 - public, in spite of its name


def _model(row: Row[tuple[object, ...]]) -> ModelRecord:
    return ModelRecord.model_validate({**row._mapping, "fingerprint": None})  # noqa: SLF001 - as above


def _load(connection: Connection) -> Records:
    revision = connection.execute(select(STATE.c.revision)).scalar_one()
    providers = connection.execute(select(PROVIDERS).order_by(PROVIDERS.c.name))
    models = connection.execute(select(MODELS).order_by(MODELS.c.id))
    with _valid():
        return Records(revision, tuple(map(_provider, providers)), tuple(map(_model, models)))


def _write(connection: Connection, seen: Records, new: Records) -> None:
    """Write what differs, so that each statement leaves what the tables demand: parents first, one default at most."""
    providers, models = _provider_rows(new), _model_rows(new)
    had_providers, had_models = _provider_rows(seen), _model_rows(seen)
    _delete(connection, MODELS.c.id, had_models.keys() - models.keys())
    _delete(connection, PROVIDERS.c.name, had_providers.keys() - providers.keys())
    _put(connection, PROVIDERS.c.name, providers, had_providers)
    _put(connection, MODELS.c.id, models, had_models)


def _provider_rows(records: Records) -> dict[str, Values]:
    return {provider.name: provider.model_dump() for provider in records.providers}


def _model_rows(records: Records) -> dict[str, Values]:
    """The default last: where it is a new one, the old one has to be none first."""
    models = sorted(records.models, key=lambda model: model.is_default)
    return {model.id: model.model_dump(exclude={"fingerprint"}) for model in models}


def _delete(connection: Connection, key: Column[str], gone: AbstractSet[str]) -> None:
    if gone:
        connection.execute(delete(key.table).where(key.in_(gone)))


def _put(connection: Connection, key: Column[str], rows: Mapping[str, Values], had: Mapping[str, Values]) -> None:
    for name, values in rows.items():
        if name not in had:
            connection.execute(insert(key.table).values(values))
        elif values != had[name]:
            connection.execute(update(key.table).where(key == name).values(values))
