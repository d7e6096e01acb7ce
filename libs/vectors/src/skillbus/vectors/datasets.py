"""Datasets of the index and the names of their collections: one for each model, behind one alias."""

from dataclasses import dataclass
from typing import Final

NO_MODEL: Final = "lexical"
"""Stands for a model's fingerprint when points have sparse vectors only."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Entries of one kind. Each is a point of every collection of the dataset."""

    alias: str
    """Name that readers search by; without a hyphen."""
    schema: str
    """Version of vectors and payload. Another version gets a new collection, and the alias moves once that is full."""

    def name_collection(self, fingerprint: str) -> str:
        """Return the name of the collection of the entries that a model embedded."""
        return f"{self.alias}-{fingerprint}-{self.schema}"

    @property
    def prefix(self) -> str:
        """Prefix of the names of all its collections."""
        return f"{self.alias}-"


TOOLS: Final = Dataset("tools", "v2")
KNOWLEDGE: Final = Dataset("knowledge", "v2")
DEVICES: Final = Dataset("devices", "v1")
COMMANDS: Final = Dataset("commands", "v1")


def parse_fingerprint(collection: str) -> str:
    """Return the fingerprint of the model of a collection's vectors, or `NO_MODEL`."""
    return collection.split("-")[1]
