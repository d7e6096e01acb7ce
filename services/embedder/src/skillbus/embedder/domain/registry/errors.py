"""What the registry refuses, and what it cannot do.

RegistryError                     see `domain/errors.py`; `code` is what callers get
├── ProviderUnknownError          no provider of that name
├── NameTakenError                a provider or a model of that name exists
├── ProviderInUseError            a provider with models is not removed
├── DefaultInUseError             the default model, or its provider, is not removed or disabled
├── NotFitForDefaultError         a model that cannot be the default
├── FieldNotAllowedError          a field that this kind of provider has no use for
├── RegistryFullError             more than one list of it can hold
├── ChangedMeanwhileError         others changed the registry again and again: try again
├── RegistryUnavailableError      the database does not answer, or cannot be opened
│   ├── RegistryUrlError          the URL names no database that can be opened here
│   └── RegistryVersionError      a newer skillbus made the tables
└── ChangeNotToldError            a change is kept, but others could not be told
"""

from collections.abc import Sequence
from typing import Final

from skillbus.contracts.embedder.registry import ProviderKind
from skillbus.contracts.errors import ErrorCode
from skillbus.embedder.domain.errors import RegistryError

_NAMED: Final = 10


class ProviderUnknownError(RegistryError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"no provider {name!r} is registered; `list_providers` names those that are")


class NameTakenError(RegistryError):
    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"a {what} {name!r} exists already; change it, or give another name")


class ProviderInUseError(RegistryError):
    def __init__(self, name: str, models: Sequence[str]) -> None:
        named = ", ".join(models[:_NAMED]) + (", …" if len(models) > _NAMED else "")
        super().__init__(f"provider {name!r} has models: {named}; remove them first")
        self.models = tuple(models)


class DefaultInUseError(RegistryError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; make another model the default first")


class NotFitForDefaultError(RegistryError):
    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model!r} cannot be the default: {reason}")


class FieldNotAllowedError(RegistryError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, field: str, kind: ProviderKind, reason: str) -> None:
        super().__init__(f"`{field}` does not fit a provider of kind {kind}: {reason}")
        self.field = field


class RegistryFullError(RegistryError):
    def __init__(self, what: str, count: int) -> None:
        super().__init__(
            f"{count} {what} are registered, and one list can hold no more; remove some, or shorten prefixes"
        )


class ChangedMeanwhileError(RegistryError):
    def __init__(self) -> None:
        super().__init__("others changed the registry at the same time, again and again; try again")


class RegistryUnavailableError(RegistryError):
    code = ErrorCode.UNAVAILABLE


class RegistryUrlError(RegistryUnavailableError):
    pass


class RegistryVersionError(RegistryUnavailableError):
    pass


class ChangeNotToldError(RegistryError):
    code = ErrorCode.UNAVAILABLE
