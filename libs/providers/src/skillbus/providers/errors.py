"""Errors of provider clients. No message or cause holds a key, or an httpx exception, which would hold the request.

ProviderError             base; the message starts with "provider <name>"
├── ProviderFailedError   no usable answer: unreachable, failed, rejected the request, or stopped by the breaker
│   └── ProviderBusyError  too many requests (429)
└── InputRefusedError     this input is refused; another input may be accepted

ReplyFormatError          raised by the parser that a caller passes to `ProviderClient.post` or `stream`
ErrorEventError           raised by the parser of `stream` for an event that reports an error
"""


class ProviderError(Exception):
    """Base of the errors that a provider client raises."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"provider {provider} {reason}")
        self.provider = provider


class ProviderFailedError(ProviderError):
    """No usable answer."""


class ProviderBusyError(ProviderFailedError):
    """The provider has too many requests of this key for the moment."""

    def __init__(self, provider: str, reason: str, retry_after_s: float | None) -> None:
        super().__init__(provider, reason)
        self.retry_after_s = retry_after_s
        """Time after which the provider wants the next request, if it says one."""


class InputRefusedError(ProviderError):
    """The provider refused the input."""

    def __init__(self, provider: str, reason: str, complaint: str = "") -> None:
        super().__init__(provider, reason)
        self.complaint = complaint
        """Words of the provider about the input: foreign text of at most 500 characters, without its key."""


class ReplyFormatError(Exception):
    """Unusable content of a successful reply. The message continues "provider <name> …"."""


class ErrorEventError(Exception):
    """An error that a provider reports inside a stream that began well."""

    def __init__(self, status: int, body: bytes) -> None:
        """Give the status that the error would have had as a reply of its own, and its JSON."""
        super().__init__(f"error event ({status})")
        self.status = status
        self.body = body
