"""An embedder with one model that a test brings."""

from pathlib import Path

from skillbus.contracts.embedder.registry import ModelRecord, ProviderRecord
from skillbus.embedder.adapters.local.threaded import ThreadedModel
from skillbus.embedder.domain.model import AsyncModel, BlockingModel, ModelSpec
from skillbus.embedder.settings import EmbedderSettings


class OnlyModel:
    """A `ModelFactory` that makes this model, whatever is registered."""

    def __init__(self, model: BlockingModel) -> None:
        self._model = model

    def build_spec(self, provider: ProviderRecord, model: ModelRecord) -> ModelSpec:
        return self._model.spec

    def build_model(self, provider: ProviderRecord, model: ModelRecord) -> AsyncModel:
        return ThreadedModel(self._model)


def embedder_in(folder: Path, **more: object) -> EmbedderSettings:
    """Settings of an embedder that keeps its registry in this folder."""
    return EmbedderSettings.model_validate({"data": folder / "embedder", **more})
