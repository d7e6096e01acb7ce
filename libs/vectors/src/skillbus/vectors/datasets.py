"""What is indexed, and the names of its collections: of each dataset one for each model, behind one alias."""

from dataclasses import dataclass
from typing import Final

NO_MODEL: Final = "lexical"
"""In place of a model's fingerprint: points have sparse vectors only."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Entries of one kind, each a point of every collection of theirs."""

    alias: str
    """What readers search; no hyphen in it."""
    schema: str
    """Of vectors and payload. Another one is another collection, and the alias changes over when it is filled."""

    def collection_of(self, fingerprint: str) -> str:
        """The collection of the entries that a model embedded."""
        return f"{self.alias}-{fingerprint}-{self.schema}"

    @property
    def prefix(self) -> str:
        """What the names of all its collections begin with."""
        return f"{self.alias}-"


TOOLS: Final = Dataset("tools", "v2")
KNOWLEDGE: Final = Dataset("knowledge", "v2")


def model_of(collection: str) -> str:
    """The fingerprint of the model whose vectors a collection holds, or `NO_MODEL`."""
    return collection.split("-")[1]
