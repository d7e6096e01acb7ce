"""Errors of the knowledge base. Each class has the `code` that callers get, and `retryable` if a retry may succeed.

LearnerError
├── UnknownItemError                the project has no such item; items of other projects count as unknown
├── UnknownJobError                 the project has no such job of learning
├── NoProposalError                 the item was not learned
├── UnknownVersionError             the item never had that version, or did not exist at that time
├── UnfitError                      the request contradicts itself
├── ConflictError                   the request clashes with the record
│   ├── ExternalIdTakenError        another item of the project has that external id
│   ├── KeyReusedError              the idempotency key was used for another item
│   ├── WrongStatusError            the item's status does not allow the change
│   ├── ProjectsError               the parents would form a cycle, or too deep a tree
│   └── ConcurrentChangeError       concurrent writers won several times in a row
├── OtherVersionError               the item is not at the expected version
└── KnowledgeUnavailableError       the database does not answer
    └── KnowledgeFullError          the disk of the database is full
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
        super().__init__(f"project {project!r} has no item {item!r}; `list_knowledge` lists its items")


class UnknownJobError(LearnerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, project: str, job: str) -> None:
        super().__init__(f"project {project!r} has no job {job!r}; `list_learning_jobs` lists its jobs")


class NoProposalError(LearnerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, item: str) -> None:
        super().__init__(f"item {item!r} was not learned: it has no proposal; `list_proposals` lists those that wait")


class UnknownVersionError(LearnerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, item: str, when: str) -> None:
        super().__init__(f"there is no item {item!r} {when}; `get_knowledge_history` lists its versions")


class UnfitError(LearnerError):
    code = ErrorCode.INVALID_REQUEST


class ConflictError(LearnerError):
    code = ErrorCode.CONFLICT


class ExternalIdTakenError(ConflictError):
    def __init__(self, external_id: str, item: str) -> None:
        super().__init__(f"item {item!r} has the external id {external_id!r}: change that item, or give another id")


class KeyReusedError(ConflictError):
    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key!r} was used for another item: use one key for each item")


class WrongStatusError(ConflictError):
    def __init__(self, item: str, status: KnowledgeStatus, advice: str) -> None:
        super().__init__(f"item {item!r} is {status}: {advice}")


class ProjectsError(ConflictError):
    pass


class ConcurrentChangeError(ConflictError):
    retryable = True

    def __init__(self) -> None:
        super().__init__("others changed the same items at the same time; try again")


class OtherVersionError(LearnerError):
    code = ErrorCode.PRECONDITION_FAILED

    def __init__(self, item: str, version: int, expected: int) -> None:
        super().__init__(
            f"item {item!r} is at version {version}, not {expected}: read it again and apply your changes to it"
        )
        self.version = version


class KnowledgeUnavailableError(LearnerError):
    code = ErrorCode.UNAVAILABLE
    retryable = True


class KnowledgeFullError(KnowledgeUnavailableError):
    code = ErrorCode.STORAGE_FULL
    retryable = False
