"""What can go wrong in the indexer.

IndexerError
├── SkillMissingError       no skill of that name is installed
├── RecordConflictError     the record was changed by another replica meanwhile
└── IndexUnavailableError   the vector store or the embedder cannot be had now; the catalogue stays the record
PackageError                (package_errors) the package is not a skill that can be installed
"""


class IndexerError(Exception):
    """Base of the indexer's errors."""


class SkillMissingError(IndexerError):
    """No such skill."""

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"No skill {name!r} is installed in project {project!r}.")
        self.name = name


class RecordConflictError(IndexerError):
    """Someone else wrote the record first."""

    def __init__(self, project: str, name: str) -> None:
        super().__init__(f"The skill {name!r} of project {project!r} was changed at the same time: try again.")


class IndexUnavailableError(IndexerError):
    """Nothing can be written to the index now."""
