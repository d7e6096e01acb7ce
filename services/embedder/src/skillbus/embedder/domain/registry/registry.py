"""What the embedder knows of providers and models: read often, changed seldom, shared by all replicas."""

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
    ChangedMeanwhileError,
    ChangeNotToldError,
    ProviderUnknownError,
    RegistryUnavailableError,
)
from skillbus.embedder.domain.registry.ports import ChangeAnnouncer, ChangeFeed, Records, RegistryStore
from skillbus.embedder.domain.registry.probe import width_of
from skillbus.embedder.domain.registry.rules import check_room
from skillbus.embedder.domain.registry.snapshot import Registered, RegisteredModel, registered

EXPIRES_AFTER_S: Final = 300.0
"""The backstop for a change that was not heard of (skill-vector-retrieval.md § Embedding配置缓存（减少数据库查询）)."""

_UNREAD_AGAIN_AFTER_S: Final = 5.0
TOLD_WITHIN_S: Final = 5.0
_TRIES: Final = 20
"""Each time that one replica's change is out of date, another's was kept; after this many somebody is told so."""
_OTHERS_GO_FIRST_S: Final = 0.02
"""At most, and by chance: those who came too late together do not come back together."""

Decide = Callable[[Records], Records]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Copy:
    registered: Registered
    position: int
    """Of the change feed when it was read."""
    expires_at: float


class Registry:
    """The records, by their rules. Reading costs no SQL until something changes.

    A change is kept first; then this replica's copy is dropped, then the other replicas are told, then those whom a
    new default concerns. What cannot be told in time is logged: others see it when their copy expires.
    """

    def __init__(
        self,
        store: RegistryStore,
        factory: ModelFactory,
        changes: ChangeAnnouncer,
        feed: ChangeFeed,
        clock: Callable[[], float] = time.monotonic,
        told_within_s: float = TOLD_WITHIN_S,
    ) -> None:
        self._store = store
        self._factory = factory
        self._changes = changes
        self._feed = feed
        self._clock = clock
        self._told_within_s = told_within_s
        self._copy: _Copy | None = None
        self._invalidations = 0
        self._loading = asyncio.Lock()
        self._changing = asyncio.Lock()

    def invalidate(self) -> None:
        """Read anew at the next call, also when a read is under way."""
        self._invalidations += 1
        self._copy = None

    async def snapshot(self) -> Registered:
        """What is registered now.

        A copy that merely expired is used on while the database does not answer.

        Raises:
            RegistryUnavailableError: the database does not answer, and there is no copy or a change was heard of.
        """
        if (copy := self._fresh()) is not None:
            return copy.registered
        async with self._loading:
            return (self._fresh() or await self._read()).registered

    def _fresh(self) -> _Copy | None:
        copy = self._copy
        return copy if copy and copy.position == self._feed.position and self._clock() < copy.expires_at else None

    async def _read(self) -> _Copy:
        await self._feed.wait_until_listening()
        position, invalidations = self._feed.position, self._invalidations
        try:
            records = await self._store.load()
        except RegistryUnavailableError as error:
            return self._kept_on(error)
        copy = _Copy(self._assembled(records), position, self._clock() + EXPIRES_AFTER_S)
        if invalidations == self._invalidations:
            self._copy = copy
        return copy

    def _kept_on(self, error: RegistryUnavailableError) -> _Copy:
        copy = self._copy
        if copy is None or copy.position != self._feed.position:
            raise error
        log.warning("registry_not_read_anew", error=str(error), again_in_s=_UNREAD_AGAIN_AFTER_S)
        self._copy = _Copy(copy.registered, copy.position, self._clock() + _UNREAD_AGAIN_AFTER_S)
        return copy

    async def providers(self) -> tuple[ProviderRecord, ...]:
        """By name."""
        known = (await self.snapshot()).providers
        return tuple(known[name] for name in sorted(known))

    async def provider(self, name: str) -> ProviderRecord:
        """Raises ProviderUnknownError."""
        found = (await self.snapshot()).providers.get(name)
        if found is None:
            raise ProviderUnknownError(name)
        return found

    async def models(self) -> tuple[ModelRecord, ...]:
        """All, those that are not enabled too, in the order in which they are tried."""
        return tuple(one.model for one in (await self.snapshot()).models)

    async def model(self, reference: str) -> ModelRecord:
        """The model of this id, name or `provider/name`. Raises ModelUnknownError."""
        return (await self.snapshot()).lookup(reference).model

    async def default_model(self) -> ModelRecord:
        """The default; see `ensure_default`."""
        return (await self.ensure_default()).model

    async def ensure_default(self) -> RegisteredModel:
        """The default model; a local one is registered as such where there is none, once for all replicas."""
        default = (await self.snapshot()).default
        if default is None:
            new = _new()
            kept = await self._change(lambda records: rules.with_a_default(records, new))
            default = self._assembled(kept).default
        if default is None:
            raise AssertionError("the rules leave a default")
        return default

    async def create_provider(self, request: CreateProvider) -> ProviderRecord:
        """Raises NameTakenError, FieldNotAllowedError."""
        new = _new()
        kept = await self._change(lambda records: rules.with_provider(records, request, new))
        return rules.provider_of(kept, request.name)

    async def update_provider(self, request: UpdateProvider) -> ProviderRecord:
        """Raises ProviderUnknownError, FieldNotAllowedError, DefaultInUseError."""
        now = _new().now
        kept = await self._change(lambda records: rules.with_provider_changed(records, request, now))
        return rules.provider_of(kept, request.name)

    async def delete_provider(self, name: str) -> None:
        """Raises ProviderUnknownError, ProviderInUseError."""
        await self._change(lambda records: rules.without_provider(records, name))

    async def create_model(self, request: CreateModel) -> ModelRecord:
        """Add a model; if nobody knows its dimensions, it is asked for a vector.

        Raises:
            RegistryError: a rule is against it; the message says which.
            ModelUnavailableError: its dimensions could not be found out, or it is to be the default and never can be.
        """
        new = _new()
        return await self._keep_model(lambda records: rules.with_model(records, request, new), new.id, wanted=True)

    async def update_model(self, request: UpdateModel) -> ModelRecord:
        """Change a model; one that is enabled or made the default is asked for its dimensions as a new one is.

        Raises:
            ModelUnknownError: there is no such model.
            RegistryError, ModelUnavailableError: as for `create_model`.
        """
        now = _new().now
        wanted = bool(request.enabled or request.is_default)
        known = await self._known(request.id)
        request = request.model_copy(update={"id": known.id})
        return await self._keep_model(
            lambda records: rules.with_model_changed(records, request, now), known.id, wanted=wanted
        )

    async def delete_model(self, reference: str) -> ModelRecord:
        """The model that is gone. Raises ModelUnknownError, DefaultInUseError."""
        model = await self._known(reference)
        await self._change(lambda records: rules.without_model(records, model.id))
        return model

    async def _known(self, reference: str) -> ModelRecord:
        return rules.model_of(await self._store.load(), reference)

    async def _keep_model(self, decide: Decide, model_id: str, *, wanted: bool) -> ModelRecord:
        """Decide, find out dimensions where that is wanted and they are not known, then keep."""
        proposed = decide(await self._store.load())
        model = rules.model_of(proposed, model_id)
        provider = rules.provider_of(proposed, model.provider)
        dimensions = await self._found_out(provider, model) if wanted or model.is_default else None

        def with_found(records: Records) -> Records:
            decided = decide(records)
            now = rules.model_of(decided, model_id)
            if dimensions is None or now.dimensions is not None:
                return decided
            if rules.provider_of(decided, now.provider).version != provider.version:
                raise ChangedMeanwhileError
            return rules.with_dimensions(decided, now, dimensions)

        kept = await self._change(with_found)
        return self._assembled(kept).lookup(model_id).model

    async def _found_out(self, provider: ProviderRecord, model: ModelRecord) -> int | None:
        """Its dimensions, if only the model itself can tell them; that a default can be had is made sure of."""
        if provider.kind is ProviderKind.ANTHROPIC or not (model.enabled and provider.enabled):
            return None
        if model.dimensions is not None and not model.is_default:
            return None
        if self._factory.spec(provider, model) is not None:
            return None
        try:
            return await width_of(self._factory, provider, model)
        except ModelUnavailableError as error:
            advice = "mend that, or give `dimensions` if you know them"
            raise ModelUnavailableError(f"the dimensions of {model.name} are unknown: {error}; {advice}") from error

    async def _change(self, decide: Decide) -> Records:
        async with self._changing:
            seen, kept = await self._keep(decide)
        if kept is not seen:
            await self._tell(self._assembled(seen).default, self._assembled(kept).default)
        return kept

    async def _keep(self, decide: Decide) -> tuple[Records, Records]:
        """The records before and after; the same twice when nothing was to be changed."""
        for _ in range(_TRIES):
            seen = await self._store.load()
            new = decide(seen)
            if new == seen:
                return seen, seen
            check_room(seen, new)
            try:
                kept = await self._store.replace(seen, new)
            finally:
                self.invalidate()
            if kept:
                return seen, new
            await asyncio.sleep(random.uniform(0, _OTHERS_GO_FIRST_S))  # noqa: S311 - jitter, not a secret
        raise ChangedMeanwhileError

    async def _tell(self, before: RegisteredModel | None, after: RegisteredModel | None) -> None:
        await self._told("registry_change_not_told", self._changes.announce_change())
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
        await self._told("default_model_change_not_told", self._changes.announce_default(fact))

    async def _told(self, otherwise: str, telling: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._told_within_s):
                await telling
        except (TimeoutError, ChangeNotToldError) as error:
            log.warning(otherwise, error=str(error) or f"not within {self._told_within_s:g} s")

    def _assembled(self, records: Records) -> Registered:
        return registered(records.providers, records.models, self._factory)


def _new() -> rules.New:
    return rules.New(uuid4().hex, datetime.now(UTC))
