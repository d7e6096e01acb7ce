"""What can go wrong in the embedder.

EmbedderError
├── OverloadedError            the queue is full: try again later
├── EmbedderClosedError        the embedder is shutting down
├── TextNotEmbeddableError     the model failed on this text alone
├── ModelMisbehavedError       the model returned something else than unit vectors
├── NotVectorsError            a reply holds no vectors; see `adapters/http/reply.py`
├── TextsRefusedError          a provider refuses some text of a batch
├── ModelUnknownError          no model of that name is registered
├── RegistryError              the registry cannot do what was asked; see `domain/registry.py`
└── ModelUnavailableError      this model cannot be had: the next of the chain is tried
    ├── ModelFilesBrokenError  the model's files are missing or damaged
    ├── SecretUnreadableError  a key cannot be read; see `adapters/secrets.py`
    └── ProviderFailedError    a provider does not answer, or answers something else than vectors
"""

from pathlib import Path

from skillbus.contracts.errors import ErrorCode


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


class TextsRefusedError(EmbedderError):
    """The batch is halved until the text that is refused is alone."""


class ModelUnknownError(EmbedderError):
    def __init__(self, wanted: str) -> None:
        super().__init__(f"no model {wanted!r} is registered; `list_models` names those that are")
        self.wanted = wanted


class RegistryError(EmbedderError):
    """Base of what `domain/registry.py` refuses."""

    code: ErrorCode = ErrorCode.CONFLICT


class ModelMisbehavedError(EmbedderError):
    """Blamed on a text of the batch, which is halved."""


class ModelUnavailableError(EmbedderError):
    """The message says what is missing and what to do."""


class ProviderFailedError(ModelUnavailableError):
    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"provider {provider} {reason}")
        self.provider = provider


class ModelFilesBrokenError(ModelUnavailableError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"model file {path} cannot be used: {reason}; install the model's package again")
        self.path = path
