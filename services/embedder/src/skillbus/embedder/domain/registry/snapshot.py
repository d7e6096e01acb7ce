"""Snapshot of the registry: providers, models of both kinds, and the order in which those of a kind are tried."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skillbus.contracts.embedder.chat_models import CHAT_MODELS_MAX
from skillbus.contracts.embedder.registry import ModelKind, ModelRecord, ProviderRecord
from skillbus.embedder.domain.errors import ModelUnavailableError, ModelUnknownError
from skillbus.embedder.domain.model import ModelFactory, ModelSpec
from skillbus.embedder.domain.registry.errors import ChatModelMissingError, WrongModelKindError

_HOW_TO_ADD: Final = (
    "no chat model is registered; register a provider, as with `skillbus providers add openai --kind openai --api-key "
    "env:OPENAI_API_KEY`, and one of its models with `skillbus models add PROVIDER NAME --chat`"
)


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A model with its provider."""

    provider: ProviderRecord
    model: ModelRecord
    """Record with its fingerprint, if it has one."""
    spec: ModelSpec | None
    """None for a chat model, while the dimensions are unknown, or if `problem` says why the model can never be used."""
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
    """Embedding models, then chat models: of each kind the default first, then by priority and name. Disabled ones are
    included."""

    @property
    def chain(self) -> tuple[RegisteredModel, ...]:
        """Embedding models that are tried if a request names none."""
        return tuple(one for one in self.models if one.enabled and one.model.kind is ModelKind.EMBEDDING)

    @property
    def default(self) -> RegisteredModel | None:
        """The default embedding model."""
        embedding = (one for one in self.models if one.model.kind is ModelKind.EMBEDDING)
        return next((one for one in embedding if one.model.is_default), None)

    def get_model(self, reference: str) -> RegisteredModel:
        """Return the model of this id, `provider/name` or name, also a disabled one. Raises ModelUnknownError."""
        found = _match_reference(self.models, reference)
        if found is None:
            raise ModelUnknownError(reference)
        return found

    def find_enabled(self, reference: str) -> RegisteredModel | None:
        """Return the enabled embedding model of this fingerprint, id, `provider/name` or name, in this order, or None.

        Raises WrongModelKindError if only a chat model has that name.
        """
        by_fingerprint = (model for model in self.chain if model.model.fingerprint == reference)
        found = next(by_fingerprint, None) or _match_reference(self.chain, reference)
        if found is None:
            self._refuse_kind(reference, ModelKind.CHAT)
        return found

    def find_chat_models(self, reference: str | None) -> tuple[RegisteredModel, ...]:
        """Return the enabled chat model of this id, `provider/name` or name; without, the default and its fallbacks.

        Raises ChatModelMissingError, ModelUnknownError, WrongModelKindError.
        """
        known = [one for one in self.models if one.model.kind is ModelKind.CHAT]
        enabled = [one for one in known if one.enabled]
        if reference is None:
            if not enabled:
                raise ChatModelMissingError(_HOW_TO_ADD if not known else _explain_disabled(known[0]))
            return tuple(enabled[:CHAT_MODELS_MAX])
        if (found := _match_reference(enabled, reference)) is not None:
            return (found,)
        if (disabled := _match_reference(known, reference)) is not None:
            raise ChatModelMissingError(_explain_disabled(disabled))
        self._refuse_kind(reference, ModelKind.EMBEDDING)
        raise ModelUnknownError(reference)

    def _refuse_kind(self, reference: str, kind: ModelKind) -> None:
        """Raise WrongModelKindError if a model of this kind has the name, and none of the other kind."""
        found = _match_reference(self.models, reference)
        if found is not None and found.model.kind is kind:
            raise WrongModelKindError(reference, kind)


def build_snapshot(
    providers: Iterable[ProviderRecord], models: Iterable[ModelRecord], factory: ModelFactory
) -> RegistrySnapshot:
    by_name = {provider.name: provider for provider in providers}
    paired = [_pair_model(by_name[model.provider], model, factory) for model in models]
    paired.sort(key=_make_sort_key)
    return RegistrySnapshot(by_name, tuple(paired))


def _make_sort_key(one: RegisteredModel) -> tuple[bool, bool, int, str, str]:
    model = one.model
    return model.kind is ModelKind.CHAT, not model.is_default, model.priority, model.name, model.provider


def _pair_model(provider: ProviderRecord, model: ModelRecord, factory: ModelFactory) -> RegisteredModel:
    if model.kind is ModelKind.CHAT:
        return RegisteredModel(provider, model, None)
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


def _explain_disabled(one: RegisteredModel) -> str:
    if one.provider.enabled:
        return f"chat model {one.full_name} is disabled; `skillbus models update {one.full_name} --enable` enables it"
    name = one.provider.name
    return f"the provider of {one.full_name} is disabled; `skillbus providers update {name} --enable` enables it"
