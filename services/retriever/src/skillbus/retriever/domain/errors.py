"""Errors of the retriever.

RetrieverError
├── StoreUnavailableError    the vector store does not answer; an empty result would be wrong
├── RecordUnavailableError   the learner does not answer; nobody else knows what may be shown
├── ModelMissingError        no chat model is configured, and the caller wants one
├── TokenizerUnknownError    there is no tokenizer of that name
└── TokenizerUnusableError   the tokenizer exists and cannot be used
"""


class RetrieverError(Exception):
    """Base of the retriever's errors."""


class StoreUnavailableError(RetrieverError):
    """The vector store cannot be reached; the message is the store's own."""


class RecordUnavailableError(RetrieverError):
    """The learner does not answer what may be shown; the message says why."""


class ModelMissingError(RetrieverError):
    """There is no chat model to read sentences; the message says how to configure one."""


class TokenizerUnknownError(RetrieverError):
    """There is no tokenizer of that name; the message lists the names that exist."""


class TokenizerUnusableError(RetrieverError):
    """The package that reads tokenizers is not installed, or the file is not a tokenizer; the message says which."""
