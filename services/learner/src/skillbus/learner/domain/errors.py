"""What the knowledge base refuses, and what it cannot do.

LearnerError                        `code` is what callers get, `retryable` whether the same may succeed later
├── UnknownItemError                no such item in the project, whatever others have
├── UnknownVersionError             the item was never at that version, or was not there at that time
├── UnfitError                      what is asked for contradicts itself
├── ConflictError                   it clashes with what is there
│   ├── ExternalIdTakenError        another item of the project has that external id
│   ├── KeyReusedError              the idempotency key was used for another item
│   ├── WrongStatusError            nothing leads there from the item's status
│   ├── ProjectsError               parents in a circle, or too many
│   └── ChangedMeanwhileError       others write the same again and again
├── OtherVersionError               the item is not at the version that was expected
└── KnowledgeUnavailableError       the record does not answer
"""

from typing import ClassVar

from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.learner.knowledge import KnowledgeStatus


class LearnerError(Exception):
    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    retryable: ClassVar[bool] = False


class UnknownItemError(LearnerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, project: str, item: str) -> None:
        super().__init__(f"project {project!r} has no item {item!r}; `list_knowledge` names those that it has")


class UnknownVersionError(LearnerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, item: str, when: str) -> None:
        super().__init__(f"there is no item {item!r} {when}; `get_knowledge_history` names its versions")


class UnfitError(LearnerError):
    code = ErrorCode.INVALID_REQUEST


class ConflictError(LearnerError):
    code = ErrorCode.CONFLICT


class ExternalIdTakenError(ConflictError):
    def __init__(self, external_id: str, item: str) -> None:
        super().__init__(f"item {item!r} has the external id {external_id!r}: change that one, or give another id")


class KeyReusedError(ConflictError):
    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key!r} was used for another item: give each item a key of its own")


class WrongStatusError(ConflictError):
    def __init__(self, item: str, status: KnowledgeStatus, advice: str) -> None:
        super().__init__(f"item {item!r} is {status}: {advice}")


class ProjectsError(ConflictError):
    pass


class ChangedMeanwhileError(ConflictError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("others write the same at the same time, again and again; try again")


class OtherVersionError(LearnerError):
    code = ErrorCode.PRECONDITION_FAILED

    def __init__(self, item: str, version: int, expected: int) -> None:
        super().__init__(
            f"item {item!r} is at version {version}, not {expected}: read it, and apply your changes to what it is now"
        )
        self.version = version


class KnowledgeUnavailableError(LearnerError):
    code = ErrorCode.UNAVAILABLE
    retryable = True
