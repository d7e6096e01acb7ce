"""The rules of the registry: from the records as they are to the records as they shall be.

Each function gives new records, and raises the RegistryError that says why not. Nothing here waits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from pathlib import PurePosixPath
from typing import Final, TypeVar

from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    ModelRecord,
    ProviderFields,
    ProviderKind,
    ProviderRecord,
    UpdateModel,
    UpdateProvider,
)
from skillbus.embedder.domain.errors import ModelUnknownError
from skillbus.embedder.domain.registry.errors import (
    DefaultInUseError,
    FieldNotAllowedError,
    NameTakenError,
    NotFitForDefaultError,
    ProviderInUseError,
    ProviderUnknownError,
    RegistryFullError,
)
from skillbus.embedder.domain.registry.ports import Records

RecordT = TypeVar("RecordT", ProviderRecord, ModelRecord)

DEFAULT_PROVIDER: Final = "local"
DEFAULT_MODEL: Final = "use-multilingual-v3"

_WITHOUT_ADDRESS: Final = frozenset({ProviderKind.LOCAL, ProviderKind.ANTHROPIC})
_CLEARED_BY_EMPTY_TEXT: Final = frozenset({"base_url", "api_key", "api_path", "path"})


@dataclass(frozen=True, slots=True)
class New:
    """What a new record gets that its request does not say."""

    id: str
    now: datetime


def provider_of(records: Records, name: str) -> ProviderRecord:
    for provider in records.providers:
        if provider.name == name:
            return provider
    raise ProviderUnknownError(name)


def model_of(records: Records, reference: str) -> ModelRecord:
    """The model of this id, `provider/name`, or name; of several with the name, the default, else the first tried."""
    in_order = sorted(records.models, key=lambda one: (not one.is_default, one.priority, one.provider))
    for keys in (lambda one: one.id, lambda one: f"{one.provider}/{one.name}", lambda one: one.name):
        for model in in_order:
            if keys(model) == reference:
                return model
    raise ModelUnknownError(reference)


def with_provider(records: Records, request: CreateProvider, new: New) -> Records:
    if any(provider.name == request.name for provider in records.providers):
        raise NameTakenError("provider", request.name)
    fields = {**_given(request), "version": 1, "created_at": new.now, "updated_at": new.now}
    provider = ProviderRecord.model_validate(_cleared(fields))
    _check_provider(provider)
    return replace(records, providers=(*records.providers, provider))


def with_provider_changed(records: Records, request: UpdateProvider, now: datetime) -> Records:
    old = provider_of(records, request.name)
    changed = old.model_copy(update=_cleared(_given(request)))
    if changed == old:
        return records
    _check_provider(changed)
    default = _default(records)
    if not changed.enabled and default is not None and default.provider == old.name:
        raise DefaultInUseError(f"provider {old.name!r} has the default model {default.name!r}")
    changed = changed.model_copy(update={"version": old.version + 1, "updated_at": now})
    return replace(records, providers=_put(records.providers, old, changed))


def without_provider(records: Records, name: str) -> Records:
    provider = provider_of(records, name)
    models = sorted(model.name for model in records.models if model.provider == name)
    if models:
        raise ProviderInUseError(name, models)
    return replace(records, providers=tuple(one for one in records.providers if one != provider))


def with_model(records: Records, request: CreateModel, new: New) -> Records:
    provider = provider_of(records, request.provider)
    if any((model.provider, model.name) == (request.provider, request.name) for model in records.models):
        raise NameTakenError("model", f"{request.provider}/{request.name}")
    said = {"id": new.id, "fingerprint": None, "version": 1, "created_at": new.now, "updated_at": new.now}
    model = ModelRecord.model_validate(_cleared({**_given(request), "is_default": request.is_default, **said}))
    _check_model(provider, model)
    others = _without_default(records.models, new.now) if model.is_default else records.models
    return replace(records, models=(*others, model))


def with_model_changed(records: Records, request: UpdateModel, now: datetime) -> Records:
    old = model_of(records, request.id)
    changed = old.model_copy(update=_cleared(_given(request, without="id")))
    if changed == old:
        return records
    if old.is_default and not changed.is_default:
        raise DefaultInUseError(f"{old.name!r} is the default model, and there is always one")
    if old.is_default and not changed.enabled:
        raise DefaultInUseError(f"{old.name!r} is the default model")
    _check_model(provider_of(records, old.provider), changed)
    changed = changed.model_copy(update={"version": old.version + 1, "updated_at": now})
    models = _put(records.models, old, changed)
    if changed.is_default and not old.is_default:
        models = _without_default(models, now, but=changed.id)
    return replace(records, models=models)


def without_model(records: Records, reference: str) -> Records:
    model = model_of(records, reference)
    if model.is_default:
        raise DefaultInUseError(f"{model.name!r} is the default model")
    return replace(records, models=tuple(one for one in records.models if one != model))


def with_dimensions(records: Records, model: ModelRecord, dimensions: int) -> Records:
    """The records with what was found out about a model that they hold; no change of its version."""
    found = model.model_copy(update={"dimensions": dimensions})
    return replace(records, models=_put(records.models, model, found))


def with_a_default(records: Records, new: New) -> Records:
    """The records, with the local model as the default where there was none."""
    if _default(records) is not None:
        return records
    records, provider = _with_local_provider(records, new)
    if not provider.enabled:
        records = with_provider_changed(records, UpdateProvider(name=provider.name, enabled=True), new.now)
    for model in records.models:
        if (model.provider, model.name) == (provider.name, DEFAULT_MODEL):
            return with_model_changed(records, UpdateModel(id=model.id, enabled=True, is_default=True), new.now)
    return with_model(records, CreateModel(provider=provider.name, name=DEFAULT_MODEL, is_default=True), new)


def _with_local_provider(records: Records, new: New) -> tuple[Records, ProviderRecord]:
    for provider in sorted(records.providers, key=lambda one: (one.name != DEFAULT_PROVIDER, one.name)):
        if provider.kind is ProviderKind.LOCAL:
            return records, provider
    taken = {provider.name for provider in records.providers}
    names = chain([DEFAULT_PROVIDER], (f"{DEFAULT_PROVIDER}-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    records = with_provider(records, CreateProvider(name=name, kind=ProviderKind.LOCAL), new)
    return records, provider_of(records, name)


def _check_provider(provider: ProviderRecord) -> None:
    if provider.base_url is not None and provider.kind in _WITHOUT_ADDRESS:
        raise FieldNotAllowedError("base_url", provider.kind, "it has no address; leave it out")
    if provider.api_key is not None and provider.kind is ProviderKind.LOCAL:
        raise FieldNotAllowedError("api_key", provider.kind, "it asks for no key; leave it out")


def _check_model(provider: ProviderRecord, model: ModelRecord) -> None:
    if provider.kind is not ProviderKind.LOCAL:
        for field, value in (("runtime", model.runtime), ("path", model.path)):
            if value is not None:
                raise FieldNotAllowedError(field, provider.kind, "only local models have one; leave it out")
    if model.path is not None and not _stays_inside(model.path):
        raise FieldNotAllowedError("path", provider.kind, "give a directory inside the model folder, like bge-small-zh")
    if model.is_default:
        _check_default(provider, model)


def _check_default(provider: ProviderRecord, model: ModelRecord) -> None:
    if provider.kind is ProviderKind.ANTHROPIC:
        raise NotFitForDefaultError(model.name, "Anthropic has no embeddings; give a model of another provider")
    if not model.enabled:
        raise NotFitForDefaultError(model.name, "it is disabled; enable it in the same request")
    if not provider.enabled:
        raise NotFitForDefaultError(model.name, f"its provider {provider.name!r} is disabled; enable that first")


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/"))
    return not parts.is_absolute() and ".." not in parts.parts and ":" not in path


def _default(records: Records) -> ModelRecord | None:
    return next((model for model in records.models if model.is_default), None)


def _without_default(models: Iterable[ModelRecord], now: datetime, but: str = "") -> tuple[ModelRecord, ...]:
    return tuple(
        model.model_copy(update={"is_default": False, "version": model.version + 1, "updated_at": now})
        if model.is_default and model.id != but
        else model
        for model in models
    )


def _given(
    request: ProviderFields | UpdateProvider | CreateModel | UpdateModel, without: str = ""
) -> dict[str, object]:
    """What the request says, by field; null says nothing."""
    said = {field: value for field, value in request if field in request.model_fields_set and field != without}
    return {field: value for field, value in said.items() if value is not None}


def _cleared(fields: dict[str, object]) -> dict[str, object]:
    """The fields, with None for an empty text where there may be none."""
    return {
        field: None if value == "" and field in _CLEARED_BY_EMPTY_TEXT else value for field, value in fields.items()
    }


def _put(records: tuple[RecordT, ...], old: RecordT, new: RecordT) -> tuple[RecordT, ...]:
    return tuple(new if record == old else record for record in records)


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
