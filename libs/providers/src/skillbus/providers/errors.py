"""Errors of provider clients. No message or cause holds a key, or an httpx exception, which would hold the request.

ProviderError             base; the message starts with "provider <name>"
├── ProviderFailedError   no usable answer: unreachable, failed, rejected the request, or stopped by the breaker
└── InputRefusedError     this input is refused; another input may be accepted

ReplyFormatError          raised by the parser that a caller passes to `ProviderClient.post`
"""


class ProviderError(Exception):
    """Base of the errors that a provider client raises."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"provider {provider} {reason}")
        self.provider = provider


class ProviderFailedError(ProviderError):
    """No usable answer."""


class InputRefusedError(ProviderError):
    """The provider refused the input."""


class ReplyFormatError(Exception):
    """Unusable content of a successful reply. The message continues "provider <name> …"."""
