"""Snapshot of the registry: providers, models, and the order in which models are tried."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.domain.errors import ModelUnavailableError, ModelUnknownError
from skillbus.embedder.domain.model import ModelFactory, ModelSpec


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A model with its provider."""

    provider: ProviderRecord
    model: ModelRecord
    """Record with its fingerprint, if it has one."""
    spec: ModelSpec | None
    """None while the dimensions are unknown, or if `problem` says why the model can never be used."""
    problem: str | None = None

    @property
    def enabled(self) -> bool:
        return self.model.enabled and self.provider.enabled

    @property
    def full_name(self) -> str:
        return f"{self.provider.name}/{self.model.name}"


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """All providers and models at one moment."""

    providers: Mapping[str, ProviderRecord]
    models: tuple[RegisteredModel, ...]
    """The default first, then by priority and name, disabled ones included."""

    @property
    def chain(self) -> tuple[RegisteredModel, ...]:
        """Models that are tried if a request names none."""
        return tuple(model for model in self.models if model.enabled)

    @property
    def default(self) -> RegisteredModel | None:
        return next((model for model in self.models if model.model.is_default), None)

    def get_model(self, reference: str) -> RegisteredModel:
        """Return the model of this id, `provider/name` or name, also a disabled one. Raises ModelUnknownError."""
        found = _match_reference(self.models, reference)
        if found is None:
            raise ModelUnknownError(reference)
        return found

    def find_enabled(self, reference: str) -> RegisteredModel | None:
        """Return the enabled model of this fingerprint, id, `provider/name` or name, in this order, or None."""
        by_fingerprint = (model for model in self.chain if model.model.fingerprint == reference)
        return next(by_fingerprint, None) or _match_reference(self.chain, reference)


def build_snapshot(
    providers: Iterable[ProviderRecord], models: Iterable[ModelRecord], factory: ModelFactory
) -> RegistrySnapshot:
    by_name = {provider.name: provider for provider in providers}
    paired = [_pair_model(by_name[model.provider], model, factory) for model in models]
    paired.sort(key=lambda one: (not one.model.is_default, one.model.priority, one.model.name, one.model.provider))
    return RegistrySnapshot(by_name, tuple(paired))


def _pair_model(provider: ProviderRecord, model: ModelRecord, factory: ModelFactory) -> RegisteredModel:
    problem = None
    try:
        spec = factory.build_spec(provider, model)
    except ModelUnavailableError as error:
        spec, problem = None, str(error)
    if spec is None:
        return RegisteredModel(provider, model.model_copy(update={"fingerprint": None}), None, problem)
    known = {"fingerprint": spec.fingerprint, "dimensions": spec.dim}
    return RegisteredModel(provider, model.model_copy(update=known), spec)


def _match_reference(models: Iterable[RegisteredModel], reference: str) -> RegisteredModel | None:
    """Return the first model with this id, else the first with this full name, else the first with this name."""
    candidates = [model for model in models if reference in {model.model.id, model.full_name, model.model.name}]
    return min(
        candidates,
        key=lambda one: (one.model.id != reference, one.full_name != reference),
        default=None,
    )
