"""A model under the name, the limits and the prefixes of its record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import ModelRecord
from skillbus.embedder.domain.model import EmbeddingModel, ModelSpec, Rows


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before each text of a role."""

    query: str
    document: str

    @classmethod
    def of(cls, model: ModelRecord) -> Self:
        return cls(model.query_prefix, model.document_prefix)

    @property
    def as_preprocessing(self) -> str:
        """Other prefixes make other vectors; empty if there are none."""
        return f", prefixes {self.query!r} {self.document!r}" if self.query or self.document else ""

    def before(self, texts: Sequence[str], role: TextRole) -> Sequence[str]:
        prefix = self.query if role is TextRole.QUERY else self.document
        return [prefix + text for text in texts] if prefix else texts


class AsRegistered:
    """A model with another spec than its own. Its texts are behind prefixes, which count for no limit of characters."""

    def __init__(self, model: EmbeddingModel, spec: ModelSpec, prefixes: Prefixes) -> None:
        self.spec: Final = spec
        self._model = model
        self._prefixes = prefixes

    async def open(self) -> None:
        await self._model.open()

    async def embed(self, texts: Sequence[str], role: TextRole) -> Rows:
        return await self._model.embed(self._prefixes.before(texts, role), role)

    async def close(self) -> None:
        await self._model.close()
