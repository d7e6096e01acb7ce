"""What is registered at a moment: providers, models, and the order in which models are tried."""

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
    """With its fingerprint, where there is one."""
    spec: ModelSpec | None
    """None while its dimensions are unknown, or where `problem` says why it can never be had."""
    problem: str | None = None

    @property
    def enabled(self) -> bool:
        return self.model.enabled and self.provider.enabled


@dataclass(frozen=True, slots=True)
class Registered:
    """A snapshot."""

    providers: Mapping[str, ProviderRecord]
    models: tuple[RegisteredModel, ...]
    """The default first, then by priority and name; those that are not enabled too."""

    @property
    def chain(self) -> tuple[RegisteredModel, ...]:
        """The models that are tried when none is named."""
        return tuple(model for model in self.models if model.enabled)

    @property
    def default(self) -> RegisteredModel | None:
        return next((model for model in self.models if model.model.is_default), None)

    def lookup(self, reference: str) -> RegisteredModel:
        """The model of this id, `provider/name` or name, also one that is not enabled.

        Raises:
            ModelUnknownError: there is none.
        """
        for holds in (_has_id, _has_full_name, _has_name):
            for found in self.models:
                if holds(found, reference):
                    return found
        raise ModelUnknownError(reference)

    def find(self, reference: str) -> RegisteredModel | None:
        """The enabled model of this fingerprint, id, `provider/name` or name, tried in this order."""
        return next(
            (
                found
                for holds in (_has_fingerprint, _has_id, _has_full_name, _has_name)
                for found in self.chain
                if holds(found, reference)
            ),
            None,
        )


def registered(providers: Iterable[ProviderRecord], models: Iterable[ModelRecord], factory: ModelFactory) -> Registered:
    """The snapshot of these records."""
    by_name = {provider.name: provider for provider in providers}
    paired = [_paired(by_name[model.provider], model, factory) for model in models]
    paired.sort(key=lambda one: (not one.model.is_default, one.model.priority, one.model.name, one.model.provider))
    return Registered(by_name, tuple(paired))


def _paired(provider: ProviderRecord, model: ModelRecord, factory: ModelFactory) -> RegisteredModel:
    try:
        spec = factory.spec(provider, model)
    except ModelUnavailableError as error:
        return RegisteredModel(provider, model.model_copy(update={"fingerprint": None}), None, str(error))
    if spec is None:
        return RegisteredModel(provider, model.model_copy(update={"fingerprint": None}), None)
    known = {"fingerprint": spec.fingerprint, "dimensions": spec.dim}
    return RegisteredModel(provider, model.model_copy(update=known), spec)


def _has_fingerprint(one: RegisteredModel, reference: str) -> bool:
    return one.model.fingerprint == reference


def _has_id(one: RegisteredModel, reference: str) -> bool:
    return one.model.id == reference


def _has_name(one: RegisteredModel, reference: str) -> bool:
    return one.model.name == reference


def _has_full_name(one: RegisteredModel, reference: str) -> bool:
    return f"{one.provider.name}/{one.model.name}" == reference
