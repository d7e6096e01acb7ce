"""Rules of the registry: pure functions from records to changed records.

Each function returns new records, or raises the RegistryError that explains the refusal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from pathlib import PurePosixPath
from typing import Final, TypeVar

from pydantic import BaseModel

from skillbus.common.paging import MESSAGE_BYTES, measure_json
from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    ModelFields,
    ModelKind,
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
    KeyNotGivenAgainError,
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

_WITHOUT_CHAT: Final = frozenset({ProviderKind.LOCAL})
_WITHOUT_EMBEDDINGS: Final = frozenset({ProviderKind.ANTHROPIC})
_OF_CHAT_MODELS: Final = frozenset({"priority", "enabled", "api_path"})
"""Settings of a chat model. The others are about vectors."""
_CLEARED_BY_EMPTY_TEXT: Final = frozenset({"base_url", "api_key", "api_path", "path"})
_COMPUTED_BYTES: Final = 64
"""Bytes that a list adds to each stored record: fingerprint, dimensions, a comma."""


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """Id and time of a new record."""

    id: str
    now: datetime


def get_provider(records: Records, name: str) -> ProviderRecord:
    for provider in records.providers:
        if provider.name == name:
            return provider
    raise ProviderUnknownError(name)


def get_model(records: Records, reference: str) -> ModelRecord:
    """Return the model of this id, `provider/name` or name; of several with the name, the first one listed."""
    in_order = sorted(
        records.models, key=lambda one: (one.kind is ModelKind.CHAT, not one.is_default, one.priority, one.provider)
    )
    for keys in (lambda one: one.id, lambda one: f"{one.provider}/{one.name}", lambda one: one.name):
        for model in in_order:
            if keys(model) == reference:
                return model
    raise ModelUnknownError(reference)


def add_provider(records: Records, request: CreateProvider, new: RecordIdentity) -> Records:
    if any(provider.name == request.name for provider in records.providers):
        raise NameTakenError("provider", request.name)
    fields = {**_list_given_fields(request), "version": 1, "created_at": new.now, "updated_at": new.now}
    provider = ProviderRecord.model_validate(fields)
    _check_provider(provider)
    return replace(records, providers=(*records.providers, provider))


def update_provider(records: Records, request: UpdateProvider, now: datetime) -> Records:
    old = get_provider(records, request.name)
    changed = old.model_copy(update=_list_given_fields(request))
    if changed == old:
        return records
    _check_provider(changed)
    if changed.base_url != old.base_url and changed.api_key is not None and request.api_key is None:
        raise KeyNotGivenAgainError(old.name)
    default = _find_default(records, ModelKind.EMBEDDING)
    if not changed.enabled and default is not None and default.provider == old.name:
        raise DefaultInUseError(f"provider {old.name!r} has the default model {default.name!r}")
    changed = changed.model_copy(update={"version": old.version + 1, "updated_at": now})
    return replace(records, providers=_replace_record(records.providers, old, changed))


def delete_provider(records: Records, name: str) -> Records:
    provider = get_provider(records, name)
    models = sorted(model.name for model in records.models if model.provider == name)
    if models:
        raise ProviderInUseError(name, models)
    return replace(records, providers=tuple(one for one in records.providers if one != provider))


def add_model(records: Records, request: CreateModel, new: RecordIdentity) -> Records:
    provider = get_provider(records, request.provider)
    if any((model.provider, model.name) == (request.provider, request.name) for model in records.models):
        raise NameTakenError("model", f"{request.provider}/{request.name}")
    identity = {"id": new.id, "fingerprint": None, "version": 1, "created_at": new.now, "updated_at": new.now}
    fields = {**_list_given_fields(request), "is_default": request.is_default, **identity}
    model = ModelRecord.model_validate(fields)
    _check_task(provider, model)
    _check_model(provider, model)
    if model.is_default:
        _check_default(provider, model)
    elif model.kind is ModelKind.CHAT and _find_default(records, model.kind) is None:
        model = model.model_copy(update={"is_default": True})
    others = _clear_default(records.models, model, new.now) if model.is_default else records.models
    return replace(records, models=(*others, model))


def update_model(records: Records, request: UpdateModel, now: datetime) -> Records:
    old = get_model(records, request.id)
    changed = old.model_copy(update=_list_given_fields(request, without="id"))
    if changed == old:
        return records
    if old.is_default and not changed.is_default:
        raise DefaultInUseError(f"{old.name!r} is the default model, and there is always one")
    if old.is_default and not changed.enabled and old.kind is ModelKind.EMBEDDING:
        raise DefaultInUseError(f"{old.name!r} is the default model")
    provider = get_provider(records, old.provider)
    _check_model(provider, changed)
    if changed.is_default and not old.is_default:
        _check_default(provider, changed)
    changed = changed.model_copy(update={"version": old.version + 1, "updated_at": now})
    models = _replace_record(records.models, old, changed)
    if changed.is_default and not old.is_default:
        models = _clear_default(models, changed, now)
    return replace(records, models=models)


def delete_model(records: Records, reference: str) -> Records:
    """Delete a model. The default stays, except the last chat model: chats need no model until somebody starts one."""
    model = get_model(records, reference)
    others = tuple(one for one in records.models if one != model)
    is_needed = model.kind is ModelKind.EMBEDDING or any(one.kind is ModelKind.CHAT for one in others)
    if model.is_default and is_needed:
        raise DefaultInUseError(f"{model.name!r} is the default model")
    return replace(records, models=others)


def set_dimensions(records: Records, model: ModelRecord, dimensions: int) -> Records:
    """Store the measured dimensions of a model. Its version stays the same."""
    measured = model.model_copy(update={"dimensions": dimensions})
    return replace(records, models=_replace_record(records.models, model, measured))


def ensure_default(records: Records, new: RecordIdentity) -> Records:
    """Make the local model the default embedding model if there is none."""
    if _find_default(records, ModelKind.EMBEDDING) is not None:
        return records
    records, provider = _ensure_local_provider(records, new)
    if not provider.enabled:
        records = update_provider(records, UpdateProvider(name=provider.name, enabled=True), new.now)
    for model in records.models:
        if (model.provider, model.name) == (provider.name, DEFAULT_MODEL):
            return update_model(records, UpdateModel(id=model.id, enabled=True, is_default=True), new.now)
    return add_model(records, CreateModel(provider=provider.name, name=DEFAULT_MODEL, is_default=True), new)


def _ensure_local_provider(records: Records, new: RecordIdentity) -> tuple[Records, ProviderRecord]:
    for provider in sorted(records.providers, key=lambda one: (one.name != DEFAULT_PROVIDER, one.name)):
        if provider.kind is ProviderKind.LOCAL:
            return records, provider
    taken = {provider.name for provider in records.providers}
    names = chain([DEFAULT_PROVIDER], (f"{DEFAULT_PROVIDER}-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    records = add_provider(records, CreateProvider(name=name, kind=ProviderKind.LOCAL), new)
    return records, get_provider(records, name)


def _check_provider(provider: ProviderRecord) -> None:
    if provider.kind is not ProviderKind.LOCAL:
        return
    if provider.base_url is not None:
        raise FieldNotAllowedError("base_url", _describe_provider(provider), "it has no address; omit it")
    if provider.api_key is not None:
        raise FieldNotAllowedError("api_key", _describe_provider(provider), "it needs no key; omit it")


def _check_task(provider: ProviderRecord, model: ModelRecord) -> None:
    """Refuse a model that its kind of provider does not offer. Models of before this rule stay."""
    owner = _describe_provider(provider)
    if model.kind is ModelKind.EMBEDDING and provider.kind in _WITHOUT_EMBEDDINGS:
        reason = "it has no embeddings; add a chat model (`kind` chat, or `--chat`), or choose another provider"
        raise FieldNotAllowedError("kind", owner, reason)
    if model.kind is ModelKind.CHAT and provider.kind in _WITHOUT_CHAT:
        reason = "it has no chat models; add them to a provider of another kind, such as ollama"
        raise FieldNotAllowedError("kind", owner, reason)


def _check_model(provider: ProviderRecord, model: ModelRecord) -> None:
    if model.kind is ModelKind.CHAT:
        for field, info in ModelFields.model_fields.items():
            if field not in _OF_CHAT_MODELS and getattr(model, field) != info.default:
                raise FieldNotAllowedError(field, "a chat model", "it is about vectors; omit it")
    if provider.kind is not ProviderKind.LOCAL:
        for field, value in (("runtime", model.runtime), ("path", model.path)):
            if value is not None:
                raise FieldNotAllowedError(field, _describe_provider(provider), "only local models have one; omit it")
    if model.path is not None:
        path = PurePosixPath(model.path.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in model.path:
            reason = "name a directory inside the model folder, like bge-small-zh"
            raise FieldNotAllowedError("path", _describe_provider(provider), reason)


def _check_default(provider: ProviderRecord, model: ModelRecord) -> None:
    if model.kind is ModelKind.EMBEDDING and provider.kind in _WITHOUT_EMBEDDINGS:
        raise NotFitForDefaultError(model.name, "Anthropic has no embeddings; choose a model of another provider")
    if not model.enabled:
        raise NotFitForDefaultError(model.name, "it is disabled; enable it in the same request")
    if not provider.enabled:
        raise NotFitForDefaultError(model.name, f"its provider {provider.name!r} is disabled; enable that first")


def _describe_provider(provider: ProviderRecord) -> str:
    return f"a provider of kind {provider.kind}"


def _find_default(records: Records, kind: ModelKind) -> ModelRecord | None:
    return next((model for model in records.models if model.is_default and model.kind is kind), None)


def _clear_default(models: Iterable[ModelRecord], new: ModelRecord, now: datetime) -> tuple[ModelRecord, ...]:
    """Return the models with `new` as the only default of its kind."""
    return tuple(
        model.model_copy(update={"is_default": False, "version": model.version + 1, "updated_at": now})
        if model.is_default and model.kind is new.kind and model.id != new.id
        else model
        for model in models
    )


def _list_given_fields(
    request: ProviderFields | UpdateProvider | CreateModel | UpdateModel, without: str = ""
) -> dict[str, object]:
    """Return the fields that the request sets. Null leaves a field as it is; an empty text clears some fields."""
    return {
        field: None if value == "" and field in _CLEARED_BY_EMPTY_TEXT else value
        for field, value in request
        if field in request.model_fields_set and field != without and value is not None
    }


def _replace_record(records: tuple[RecordT, ...], old: RecordT, new: RecordT) -> tuple[RecordT, ...]:
    return tuple(new if record == old else record for record in records)


def check_capacity(seen: Records, new: Records) -> None:
    """Raise RegistryFullError unless each list fits into one reply. A change that needs no space always passes."""
    lists: tuple[tuple[str, Sequence[BaseModel], Sequence[BaseModel]], ...] = (
        ("models", seen.models, new.models),
        ("providers", seen.providers, new.providers),
    )
    for kind, before, after in lists:
        size = _measure_list(after)
        if size > MESSAGE_BYTES and size - _measure_list(before) > _COMPUTED_BYTES:
            raise RegistryFullError(kind, len(before))


def _measure_list(records: Sequence[BaseModel]) -> int:
    return sum(measure_json(record) + _COMPUTED_BYTES for record in records)
