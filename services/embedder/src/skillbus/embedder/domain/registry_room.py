"""How much may be registered: all of it is listed in one message, and without the list nobody could put it in order."""

from collections.abc import Sequence
from typing import Final

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.domain.registry_errors import RegistryFullError
from skillbus.embedder.domain.registry_store import Records

LIST_BYTES: Final = 768 * 1024
"""Of all models, or all providers, as JSON: nats-server takes messages of 1 MiB unless it is told otherwise."""
_FOUND_OUT_BYTES: Final = 64
"""Of a record, for what a list says beside it: fingerprint, dimensions, a comma."""


def check_room(seen: Records, new: Records) -> None:
    """Changes that need no room are let through, also where there is too much already.

    Raises:
        RegistryFullError: the new records are more than one list can hold.
    """
    _check("models", seen.models, new.models)
    _check("providers", seen.providers, new.providers)


def _check(
    what: str, before: Sequence[ModelRecord | ProviderRecord], after: Sequence[ModelRecord | ProviderRecord]
) -> None:
    size = _listed_bytes(after)
    if size > LIST_BYTES and size - _listed_bytes(before) > _FOUND_OUT_BYTES:
        raise RegistryFullError(what, len(before))


def _listed_bytes(records: Sequence[ModelRecord | ProviderRecord]) -> int:
    return sum(len(record.model_dump_json().encode()) + _FOUND_OUT_BYTES for record in records)
