"""Names of the collections that hold tools: one for each model, behind one alias."""

from typing import Final

ALIAS: Final = "tools"
"""What readers search."""
NO_MODEL: Final = "lexical"
"""In place of a model's fingerprint: points have sparse vectors only."""
_SCHEMA: Final = "v2"
"""Of vectors and payload. Another one is another collection, and the alias changes over when it is filled."""


def collection_of(fingerprint: str) -> str:
    """The collection of the tools that a model embedded."""
    return f"tools-{fingerprint}-{_SCHEMA}"


def model_of(collection: str) -> str:
    """The fingerprint of the model whose vectors a collection holds, or `NO_MODEL`."""
    return collection.split("-")[1]
