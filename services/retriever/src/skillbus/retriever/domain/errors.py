"""What can go wrong in the retriever.

RetrieverError
├── StoreUnavailableError    the vector store cannot be reached; an empty answer would be a lie
└── RecordUnavailableError   the learner does not answer; without it nobody knows what may be shown
"""


class RetrieverError(Exception):
    """Base of the retriever's errors."""


class StoreUnavailableError(RetrieverError):
    """The vector store cannot be reached; the message is the store's own."""


class RecordUnavailableError(RetrieverError):
    """The learner does not say what may be shown; the message says why."""
