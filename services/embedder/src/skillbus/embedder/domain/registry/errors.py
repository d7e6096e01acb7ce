"""Errors of the registry.

RegistryError                     see `domain/errors.py`
├── ProviderUnknownError          no provider of that name
├── NameTakenError                a provider or model of that name exists
├── ProviderInUseError            a provider that has models cannot be deleted
├── DefaultInUseError             the default model, or its provider, cannot be deleted or disabled
├── NotFitForDefaultError         this model cannot be the default
├── KeyNotGivenAgainError         an address cannot change without its key being named again
├── FieldNotAllowedError          this kind of provider or model has no use for the field
├── WrongModelKindError           the named model has another task
├── ChatModelMissingError         no chat model is registered and enabled
├── RegistryFullError             one list of the registry cannot hold more
├── RegistryConflictError         other changes came first, again and again
├── RegistryUnavailableError      the database does not answer, or cannot be opened
│   ├── RegistryStorageFullError  the disk of the database is full
│   ├── RegistryUrlError          the URL names no database that can be opened here
│   └── RegistryVersionError      a newer skillbus made the tables
└── ChangeNotToldError            a change was stored but could not be announced
"""

from collections.abc import Sequence
from typing import Final

from skillbus.contracts.embedder.registry import ModelKind
from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.domain.errors import RegistryError

_NAMED: Final = 10
"""Most models that a message names."""
_OTHER_TASKS: Final = {
    ModelKind.EMBEDDING: "{name} is an embedding model and answers no chats; name a chat model",
    ModelKind.CHAT: "{name} is a chat model and makes no vectors; name an embedding model",
}


class ProviderUnknownError(RegistryError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"no provider {name!r} is registered; `list_providers` names the registered ones")


class NameTakenError(RegistryError):
    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} {name!r} already exists; change it, or choose another name")


class ProviderInUseError(RegistryError):
    def __init__(self, name: str, models: Sequence[str]) -> None:
        named = ", ".join(models[:_NAMED]) + (", …" if len(models) > _NAMED else "")
        super().__init__(f"provider {name!r} has models: {named}; delete them first")


class DefaultInUseError(RegistryError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; make another model the default first")


class NotFitForDefaultError(RegistryError):
    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model!r} cannot be the default: {reason}")


class KeyNotGivenAgainError(RegistryError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the key of provider {name!r} is for its present address: to change `base_url`, give `api_key` again in "
            "the same request, or an empty text for none"
        )


class FieldNotAllowedError(RegistryError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, field: str, owner: str, reason: str) -> None:
        super().__init__(f"`{field}` does not fit {owner}: {reason}")


class WrongModelKindError(RegistryError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, reference: str, kind: ModelKind) -> None:
        problem = _OTHER_TASKS[kind].format(name=repr(reference))
        super().__init__(problem)
        self.details = {"fields": [{"field": "model", "problem": problem}]}


class ChatModelMissingError(RegistryError):
    code = ErrorCode.MODEL_UNAVAILABLE


class RegistryFullError(RegistryError):
    def __init__(self, kind: str, count: int) -> None:
        super().__init__(
            f"{count} {kind} are registered, and one list can hold no more; delete some, or shorten prefixes"
        )


class RegistryConflictError(RegistryError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("other changes of the registry came first, again and again; try again")


class RegistryUnavailableError(RegistryError):
    code = ErrorCode.UNAVAILABLE
    retryable = True


class RegistryStorageFullError(RegistryUnavailableError):
    code = ErrorCode.STORAGE_FULL
    retryable = False


class RegistryUrlError(RegistryUnavailableError):
    pass


class RegistryVersionError(RegistryUnavailableError):
    pass


class ChangeNotToldError(RegistryError):
    code = ErrorCode.UNAVAILABLE
    retryable = True
