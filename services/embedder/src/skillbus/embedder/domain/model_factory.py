"""The port to what models are made of."""

from typing import Protocol

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec


class ModelFactory(Protocol):
    """Makes models from what the registry says of them. Neither method does any input or output."""

    def spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec | None:
        """What is known of a model without loading it or asking for it; None while its dimensions are unknown.

        Raises:
            ModelUnavailableError: it can never be had as it is registered.
        """
        ...

    def make(self, provider: ProviderRecord, model: ModelRecord) -> EmbeddingModel:
        """The model, not opened. Without `model.dimensions`, it tells them by the width of its rows.

        Raises:
            ModelUnavailableError: it can never be had as it is registered.
        """
        ...
