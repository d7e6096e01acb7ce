"""Errors of the indexer. Each class has the `code` that callers get; None if no caller gets the error.

IndexerError
├── SkillMissingError         no skill of that name is installed
├── VersionMissingError       no such package is in the skill's history
├── SkillPinnedError          only the installed package may be installed under the name
├── PlaceNotWantedError       an operator approves a place that the skill does not request
├── ToolMissingError          the catalogue has no tool of that id
├── ToolChangedError          the description in quarantine is not the one that was reviewed
├── NothingNamedError         neither ids nor a source say what to remove; all tools are never removed by omission
├── HomeMissingError          the project has no home of that name
├── IndexUnavailableError     the vector store or the embedder is unavailable; the catalogue stays the record
│   └── DenseUnavailableError the model of a collection gives no vectors now
├── IndexMissingError         no index of that alias
├── NoDefaultModelError       there is no model to switch to
├── RollBackRefusedError      there is nothing to roll back
└── UnsettledError            concurrent writes keep a new collection from being verified
PackageError                  (package/findings.py) the package is not a skill that can be installed
WriteConflictError            (common/records.py) somebody else wrote the record since it was read
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import JsonValue

from skillbus.contracts.errors import ErrorCode


class IndexerError(Exception):
    code: ClassVar[ErrorCode | None] = None
    details: dict[str, JsonValue] | None = None


class SkillMissingError(IndexerError):
    code = ErrorCode.SKILL_NOT_FOUND

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"No skill {name!r} is installed in project {project!r}.")
        self.details = {"skill": name}


class VersionMissingError(IndexerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, name: str, content_digest: str | None) -> None:
        wanted = f"no package {content_digest}" if content_digest else "no earlier package"
        super().__init__(f"The history of the skill {name!r} has {wanted}: ask for its history to see its packages.")


class SkillPinnedError(IndexerError):
    code = ErrorCode.CONFLICT

    def __init__(self, project: str, name: str, content_digest: str) -> None:
        super().__init__(
            f"The skill {name!r} of project {project!r} is pinned to the package {content_digest}: "
            "unpin it (pin_skill with pinned: false) to install another."
        )
        self.details = {"reason": "pinned"}


class PlaceNotWantedError(IndexerError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self, name: str, place: str, wanted: Sequence[str]) -> None:
        wants = f"it requests {', '.join(wanted)}" if wanted else "it requests no network"
        super().__init__(f"The skill {name!r} does not request {place}: {wants}.")


class ToolMissingError(IndexerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, project: str, tool_id: str) -> None:
        super().__init__(f"The catalogue of project {project!r} has no tool {tool_id!r}.")


class ToolChangedError(IndexerError):
    code = ErrorCode.CONFLICT

    def __init__(self, tool_id: str, digest: str) -> None:
        super().__init__(f"The tool {tool_id!r} changed since it was reviewed: review it again, and accept {digest}.")


class NothingNamedError(IndexerError):
    code = ErrorCode.INVALID_REQUEST

    def __init__(self) -> None:
        super().__init__("Name the tools to remove by `ids`, or all of one `source`.")


class HomeMissingError(IndexerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, project: str, home: str) -> None:
        super().__init__(f"Project {project!r} has no home {home!r}: `GET /api/homes` lists its homes.")
        self.details = {"home": home}


class IndexUnavailableError(IndexerError):
    code = ErrorCode.VECTOR_STORE_UNAVAILABLE


class DenseUnavailableError(IndexUnavailableError):
    def __init__(self, fingerprint: str, reason: str) -> None:
        super().__init__(f"The model {fingerprint} gives no vectors now: {reason}")


class IndexMissingError(IndexerError):
    code = ErrorCode.NOT_FOUND

    def __init__(self, alias: str) -> None:
        super().__init__(f"There is no index {alias!r}: list the indexes to see their names.")


class NoDefaultModelError(IndexerError):
    code = ErrorCode.CONFLICT

    def __init__(self) -> None:
        super().__init__("There is no default embedding model that gives vectors: make one the default first.")


class RollBackRefusedError(IndexerError):
    code = ErrorCode.CONFLICT


class UnsettledError(IndexerError):
    def __init__(self, rounds: int, differing: int) -> None:
        super().__init__(f"After {rounds} rounds of verification {differing} entries still differ from the record.")
