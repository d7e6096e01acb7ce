"""What can go wrong in the retriever.

RetrieverError
└── StoreUnavailableError   the vector store cannot be reached; an empty answer would be a lie
"""


class RetrieverError(Exception):
    """Base of the retriever's errors."""


class StoreUnavailableError(RetrieverError):
    """The vector store cannot be reached; the message is the store's own."""
