"""What can go wrong in the retriever.

RetrieverError
├── StoreUnavailableError    the vector store cannot be reached; an empty answer would be a lie
├── RecordUnavailableError   the learner does not answer; without it nobody knows what may be shown
├── TemplateRefusedError     a caller's template that cannot be used
├── TokenizerUnknownError    a tokenizer that is not there
└── TokenizerUnusableError   one that is there and cannot be used
"""


class RetrieverError(Exception):
    """Base of the retriever's errors."""


class StoreUnavailableError(RetrieverError):
    """The vector store cannot be reached; the message is the store's own."""


class RecordUnavailableError(RetrieverError):
    """The learner does not say what may be shown; the message says why."""


class TemplateRefusedError(RetrieverError):
    """A caller's template that cannot be used: it is none, takes too long or too much, or leaves no room for items."""


class TokenizerUnknownError(RetrieverError):
    """There is no tokenizer of that name; the message names those that there are."""


class TokenizerUnusableError(RetrieverError):
    """The package that reads tokenizers is not installed, or the file is none; the message says which."""
