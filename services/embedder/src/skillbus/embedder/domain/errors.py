"""Errors of the embedder. Each class states the code that callers get.

EmbedderError
├── OverloadedError            the queue is full
├── EmbedderClosedError        the embedder is shutting down
├── TextNotEmbeddableError     the model failed on this text alone
├── ModelMisbehavedError       the model returned something else than unit vectors
├── TextsRefusedError          the model refuses a text of the batch
├── ModelUnknownError          no model of that name is registered
├── RegistryError              the registry refused or could not make a change; see `domain/registry/errors.py`
└── ModelUnavailableError      this model cannot be used now; the next one of the chain is tried
    ├── ModelRecordInvalidError  it cannot be opened as it is registered
    └── ModelFilesBrokenError  the model's files are missing or damaged
"""

from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode


class EmbedderError(Exception):
    """Base of this package's errors."""

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    retryable: ClassVar[bool | None] = None
    """None for the default of the code."""
    details: dict[str, JsonValue] | None = None
    """Data of the error for programs."""


class OverloadedError(EmbedderError):
    code = ErrorCode.OVERLOADED

    def __init__(self, queued: int, limit: int) -> None:
        super().__init__(f"{queued} of {limit} places in the embedding queue are taken; try again later or send less")
        self.details = {"queued": queued}


class EmbedderClosedError(EmbedderError):
    code = ErrorCode.UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("the embedder is shutting down; ask another replica")


class TextNotEmbeddableError(EmbedderError):
    """Failure of one text. Its cause is the model's own error."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, text_index: int, reason: str) -> None:
        super().__init__(f"the model failed on text {text_index}: {reason}; send the others without it")
        self.details = {"text_index": text_index}


class TextsRefusedError(EmbedderError):
    """Refusal of a batch. The batch is halved until the refused text is alone."""


class ModelUnknownError(EmbedderError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, reference: str) -> None:
        super().__init__(f"no model {reference!r} is registered; `list_models` names the registered ones")


class RegistryError(EmbedderError):
    """Base of the errors of `domain/registry`. A conflict with the rules persists until somebody changes something."""

    code = ErrorCode.CONFLICT
    retryable = False


class ModelMisbehavedError(EmbedderError):
    """Invalid rows of a batch. The batch is halved, like for an error of the model itself."""


class ModelUnavailableError(EmbedderError):
    """Unavailable model. The message says what is missing and what to do."""

    code = ErrorCode.MODEL_UNAVAILABLE


class ModelRecordInvalidError(ModelUnavailableError):
    """A model that cannot be opened as it is registered. Who registers it so gets this error."""

    code = ErrorCode.INVALID_REQUEST
    retryable = False


class ModelFilesBrokenError(ModelUnavailableError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"model file {path} cannot be used: {reason}; install the model's package again")
        self.path = path
