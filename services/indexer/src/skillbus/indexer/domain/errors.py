"""What can go wrong in the indexer.

IndexerError
├── SkillMissingError         no skill of that name is installed
├── VersionMissingError       no such package is in the skill's history
├── SkillPinnedError          only the package that is installed may be installed under the name
├── PlaceNotWantedError       an operator approves a place that the skill does not want to reach
├── RecordConflictError       the record was changed by another replica meanwhile
├── ToolMissingError          the catalogue has no tool of that id
├── ToolChangedError          what waits to be accepted is not what was looked at
├── ToolConflictError         the tool was changed at the same time
├── NothingNamedError         neither ids nor a source tell what to remove
├── IndexUnavailableError     the vector store or the embedder cannot be had now; the catalogue stays the record
│   └── DenseUnavailableError the model of a collection gives no vectors now
├── IndexMissingError         no index of that alias
├── NoDefaultModelError       there is no model to take an index to
├── RollBackRefusedError      there is nothing to go back to
├── SwitchConflictError       the switch was taken further by someone else meanwhile
└── UnsettledError            what is written meanwhile keeps a new collection from being verified
PackageError                  (package_errors) the package is not a skill that can be installed
"""

from collections.abc import Sequence


class IndexerError(Exception):
    """Base of the indexer's errors."""


class SkillMissingError(IndexerError):
    """No such skill."""

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"No skill {name!r} is installed in project {project!r}.")
        self.name = name


class VersionMissingError(IndexerError):
    """Nothing to go back to, or not to that."""

    def __init__(self, name: str, content_digest: str | None) -> None:
        wanted = f"no package {content_digest}" if content_digest else "no earlier package"
        super().__init__(f"The history of the skill {name!r} has {wanted}: ask for its history to see those it has.")


class SkillPinnedError(IndexerError):
    """The skill is held at its package."""

    def __init__(self, project: str, name: str, content_digest: str) -> None:
        super().__init__(
            f"The skill {name!r} of project {project!r} is pinned to the package {content_digest}: "
            "unpin it (pin_skill with pinned: false) to install another."
        )


class PlaceNotWantedError(IndexerError):
    """Approved in vain, perhaps for a package that was replaced."""

    def __init__(self, name: str, place: str, wanted: Sequence[str]) -> None:
        wants = f"it wants {', '.join(wanted)}" if wanted else "it wants no network"
        super().__init__(f"The skill {name!r} does not want to reach {place}: {wants}.")


class RecordConflictError(IndexerError):
    """Someone else wrote the record first."""

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"The skill {name!r} of project {project!r} was changed at the same time: try again.")


class ToolMissingError(IndexerError):
    """No such tool."""

    def __init__(self, project: str, tool_id: str) -> None:
        super().__init__(f"The catalogue of project {project!r} has no tool {tool_id!r}.")
        self.tool_id = tool_id


class ToolChangedError(IndexerError):
    """Something else waits to be accepted by now."""

    def __init__(self, tool_id: str, digest: str) -> None:
        super().__init__(
            f"The tool {tool_id!r} is not what was looked at any more: look at it again, and accept {digest}."
        )


class ToolConflictError(IndexerError):
    """Someone else wrote the record of the tool first."""

    def __init__(self, project: str, tool_id: str) -> None:
        super().__init__(f"The tool {tool_id!r} of project {project!r} was changed at the same time: try again.")


class NothingNamedError(IndexerError):
    """Removing all there is takes more than leaving out what is meant."""

    def __init__(self) -> None:
        super().__init__("Name the tools to remove by `ids`, or all of one `source`.")


class IndexUnavailableError(IndexerError):
    """Nothing can be written to the index now."""


class DenseUnavailableError(IndexUnavailableError):
    """The model of a collection cannot be had."""

    def __init__(self, fingerprint: str, reason: str) -> None:
        super().__init__(f"The model {fingerprint} gives no vectors now: {reason}")


class IndexMissingError(IndexerError):
    """No such alias."""

    def __init__(self, alias: str) -> None:
        super().__init__(f"There is no index {alias!r}: list the indexes to see which there are.")


class NoDefaultModelError(IndexerError):
    """Nothing to switch to."""

    def __init__(self) -> None:
        super().__init__("There is no default embedding model that gives vectors: make one the default first.")


class RollBackRefusedError(IndexerError):
    """The collection before the last switch is gone, or there was none."""


class SwitchConflictError(IndexerError):
    """Someone else wrote the state of the switch first."""

    def __init__(self, alias: str) -> None:
        super().__init__(f"The switch of {alias!r} was changed at the same time: look at it and try again.")


class UnsettledError(IndexerError):
    """Verification found differences in every round."""

    def __init__(self, rounds: int, differing: int) -> None:
        super().__init__(f"After {rounds} rounds of verification {differing} entries still differ from the record.")
