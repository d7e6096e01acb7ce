"""Registry of providers and models: read often, changed rarely, shared by all replicas."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import structlog

from skillbus.contracts.embedder.registry import (
    CreateModel,
    CreateProvider,
    DefaultModelChanged,
    ModelKind,
    ModelRecord,
    ProviderKind,
    ProviderRecord,
    UpdateModel,
    UpdateProvider,
)
from skillbus.embedder.domain.errors import ModelUnavailableError
from skillbus.embedder.domain.model import ModelFactory
from skillbus.embedder.domain.registry import rules
from skillbus.embedder.domain.registry.errors import (
    ChangeNotToldError,
    ProviderUnknownError,
    RegistryConflictError,
    RegistryUnavailableError,
)
from skillbus.embedder.domain.registry.ports import ChangeFeed, Records, RegistryChangeAnnouncer, RegistryStore
from skillbus.embedder.domain.registry.probe import measure_dimensions
from skillbus.embedder.domain.registry.snapshot import RegisteredModel, RegistrySnapshot, build_snapshot

EXPIRES_AFTER_S: Final = 300.0
"""Age at which a copy is reloaded even without an announced change
(skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）)."""

_RELOAD_RETRY_S: Final = 5.0
"""Pause before the next attempt to reload an expired copy while the database does not answer."""
ANNOUNCE_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 20
"""Attempts to store a change. Each failed one means that another change was stored."""
_CONFLICT_PAUSE_S: Final = 0.02
"""Longest random pause after a conflict, so that competing replicas do not collide again."""

Change = Callable[[Records], Records]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    snapshot: RegistrySnapshot
    position: int
    """Position of the change feed at the time of the copy."""
    expires_at: float


class Registry:
    """Records under the rules, with a local copy: reading costs no SQL until something changes.

    A change is stored first. Then this replica's copy is dropped, the other replicas are notified, and a new default
    is published. A failed announcement is logged: other replicas see the change when their copy expires.
    """

    def __init__(
        self,
        store: RegistryStore,
        factory: ModelFactory,
        announcer: RegistryChangeAnnouncer,
        feed: ChangeFeed,
        clock: Callable[[], float] = time.monotonic,
        announce_timeout_s: float = ANNOUNCE_TIMEOUT_S,
    ) -> None:
        self._store = store
        self._factory = factory
        self._announcer = announcer
        self._feed = feed
        self._clock = clock
        self._announce_timeout_s = announce_timeout_s
        self._copy: _Copy | None = None
        self._invalidations = 0
        self._loading = asyncio.Lock()
        self._changing = asyncio.Lock()

    def invalidate(self) -> None:
        """Drop the copy, and the result of a load in progress."""
        self._invalidations += 1
        self._copy = None

    async def load_snapshot(self) -> RegistrySnapshot:
        """Return the current snapshot. An expired copy stays in use while the database does not answer.

        Raises RegistryUnavailableError if it does not answer, and there is no copy or a change was announced.
        """
        if (copy := self._get_fresh_copy()) is not None:
            return copy.snapshot
        async with self._loading:
            return (self._get_fresh_copy() or await self._load_copy()).snapshot

    def _get_fresh_copy(self) -> _Copy | None:
        copy = self._copy
        return copy if copy and copy.position == self._feed.position and self._clock() < copy.expires_at else None

    async def _load_copy(self) -> _Copy:
        await self._feed.wait_until_listening()
        position, invalidations = self._feed.position, self._invalidations
        try:
            records = await self._store.load()
        except RegistryUnavailableError as error:
            expired = self._copy
            if expired is None or expired.position != self._feed.position:
                raise
            log.warning("registry_reload_failed", error=str(error), retry_s=_RELOAD_RETRY_S)
            self._copy = _Copy(expired.snapshot, expired.position, self._clock() + _RELOAD_RETRY_S)
            return expired
        copy = _Copy(self._build_snapshot(records), position, self._clock() + EXPIRES_AFTER_S)
        if invalidations == self._invalidations:
            self._copy = copy
        return copy

    async def list_providers(self) -> tuple[ProviderRecord, ...]:
        """Return all providers by name."""
        known = (await self.load_snapshot()).providers
        return tuple(known[name] for name in sorted(known))

    async def get_provider(self, name: str) -> ProviderRecord:
        """Return a provider. Raises ProviderUnknownError."""
        found = (await self.load_snapshot()).providers.get(name)
        if found is None:
            raise ProviderUnknownError(name)
        return found

    async def list_models(self) -> tuple[ModelRecord, ...]:
        """Return all models, disabled ones included: embedding models, then chat models, as each kind is tried."""
        return tuple(one.model for one in (await self.load_snapshot()).models)

    async def get_model(self, reference: str) -> ModelRecord:
        """Return the model of this id, name or `provider/name`. Raises ModelUnknownError."""
        return (await self.load_snapshot()).get_model(reference).model

    async def find_chat_models(self, reference: str | None) -> tuple[RegisteredModel, ...]:
        """Return the chat model of this id, name or `provider/name`; without one, the default and its fallbacks.

        Raises ChatModelMissingError, ModelUnknownError, WrongModelKindError.
        """
        return (await self.load_snapshot()).find_chat_models(reference)

    async def ensure_default(self) -> ModelRecord:
        """Return the default embedding model. If there is none, register a local one, once for all replicas."""
        default = (await self.load_snapshot()).default
        if default is None:
            new = _create_identity()
            stored = await self._change(lambda records: rules.ensure_default(records, new))
            default = self._build_snapshot(stored).default
        if default is None:
            raise AssertionError("the rules leave a default")
        return default.model

    async def create_provider(self, request: CreateProvider) -> ProviderRecord:
        """Add a provider. Raises NameTakenError, FieldNotAllowedError."""
        new = _create_identity()
        stored = await self._change(lambda records: rules.add_provider(records, request, new))
        return rules.get_provider(stored, request.name)

    async def update_provider(self, request: UpdateProvider) -> ProviderRecord:
        """Change a provider. Raises ProviderUnknownError, FieldNotAllowedError, DefaultInUseError."""
        now = datetime.now(UTC)
        stored = await self._change(lambda records: rules.update_provider(records, request, now))
        return rules.get_provider(stored, request.name)

    async def delete_provider(self, name: str) -> None:
        """Delete a provider. Raises ProviderUnknownError, ProviderInUseError."""
        await self._change(lambda records: rules.delete_provider(records, name))

    async def create_model(self, request: CreateModel) -> ModelRecord:
        """Add a model. If the dimensions of an embedding model are unknown, ask it for a vector.

        Raises RegistryError if a rule forbids it, ModelUnavailableError if the dimensions could not be measured or the
        new default can never be used.
        """
        new = _create_identity()
        return await self._store_model(lambda records: rules.add_model(records, request, new), new.id, measure=True)

    async def update_model(self, request: UpdateModel) -> ModelRecord:
        """Change a model. If it becomes enabled or the default, unknown dimensions are measured as for a new one.

        Raises ModelUnknownError, or as `create_model`.
        """
        now = datetime.now(UTC)
        measure = bool(request.enabled or request.is_default)
        model_id = rules.get_model(await self._store.load(), request.id).id
        request = request.model_copy(update={"id": model_id})
        return await self._store_model(
            lambda records: rules.update_model(records, request, now), model_id, measure=measure
        )

    async def delete_model(self, reference: str) -> ModelRecord:
        """Delete a model and return it. Raises ModelUnknownError, DefaultInUseError."""
        model = rules.get_model(await self._store.load(), reference)
        await self._change(lambda records: rules.delete_model(records, model.id))
        return model

    async def _store_model(self, change: Change, model_id: str, *, measure: bool) -> ModelRecord:
        """Apply a change, measure the model's dimensions if necessary, then store both."""
        proposed = change(await self._store.load())
        model = rules.get_model(proposed, model_id)
        provider = rules.get_provider(proposed, model.provider)
        dimensions = await self._measure_unknown(provider, model) if measure or model.is_default else None

        def with_dimensions(records: Records) -> Records:
            changed = change(records)
            current = rules.get_model(changed, model_id)
            if dimensions is None or current.dimensions is not None:
                return changed
            if rules.get_provider(changed, current.provider).version != provider.version:
                raise RegistryConflictError
            return rules.set_dimensions(changed, current, dimensions)

        stored = await self._change(with_dimensions)
        return self._build_snapshot(stored).get_model(model_id).model

    async def _measure_unknown(self, provider: ProviderRecord, model: ModelRecord) -> int | None:
        """Measure the dimensions if only the model itself knows them. Check that a default model can be used."""
        if model.kind is ModelKind.CHAT or provider.kind is ProviderKind.ANTHROPIC:
            return None
        if not (model.enabled and provider.enabled):
            return None
        if model.dimensions is not None and not model.is_default:
            return None
        if self._factory.build_spec(provider, model) is not None:
            return None
        try:
            return await measure_dimensions(self._factory, provider, model)
        except ModelUnavailableError as error:
            advice = "fix that, give `dimensions` if you know them, or add a chat model with `--chat` (kind `chat`)"
            raise ModelUnavailableError(f"the dimensions of {model.name} are unknown: {error}; {advice}") from error

    async def _change(self, change: Change) -> Records:
        """Store a change, announce it, and return the new records."""
        async with self._changing:
            before, after = await self._store_change(change)
        if after is not before:
            await self._announce(self._build_snapshot(before).default, self._build_snapshot(after).default)
        return after

    async def _store_change(self, change: Change) -> tuple[Records, Records]:
        """Return the records before and after; the same object twice if nothing changed."""
        for _ in range(_ATTEMPTS):
            seen = await self._store.load()
            new = change(seen)
            if new == seen:
                return seen, seen
            rules.check_capacity(seen, new)
            try:
                stored = await self._store.replace(seen, new)
            finally:
                self.invalidate()
            if stored:
                return seen, new
            await asyncio.sleep(random.uniform(0, _CONFLICT_PAUSE_S))  # noqa: S311 - jitter, not a secret
        raise RegistryConflictError

    async def _announce(self, before: RegisteredModel | None, after: RegisteredModel | None) -> None:
        await self._announce_in_time("registry_change_not_announced", self._announcer.announce_change())
        if after is None or after.spec is None or (before and before.model.fingerprint == after.spec.fingerprint):
            return
        fact = DefaultModelChanged(
            id=after.model.id,
            provider=after.provider.name,
            name=after.model.name,
            fingerprint=after.spec.fingerprint,
            dimensions=after.spec.dim,
        )
        log.info("default_model_changed", model=fact.name, provider=fact.provider, fingerprint=fact.fingerprint)
        await self._announce_in_time("default_model_not_announced", self._announcer.announce_default(fact))

    async def _announce_in_time(self, failure_event: str, announcement: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._announce_timeout_s):
                await announcement
        except (TimeoutError, ChangeNotToldError) as error:
            log.warning(failure_event, error=str(error) or f"not within {self._announce_timeout_s:g} s")

    def _build_snapshot(self, records: Records) -> RegistrySnapshot:
        return build_snapshot(records.providers, records.models, self._factory)


def _create_identity() -> rules.RecordIdentity:
    return rules.RecordIdentity(uuid4().hex, datetime.now(UTC))
