"""Errors that keep the gateway from starting. Errors of requests are the contract's `RequestError`.

GatewayError
├── OwnerKeyRequiredError   the address can be reached by other machines, and there is no key
└── OwnerKeyInvalidError    the key, or the file that should hold it, cannot be used
"""


class GatewayError(Exception):
    """Base of this package's errors."""


class OwnerKeyRequiredError(GatewayError):
    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is not a loopback address, and without an owner's key anyone could use it: "
            "set SKILLBUS_GATEWAY_OWNER_KEY or SKILLBUS_GATEWAY_OWNER_KEY_FILE, or listen on 127.0.0.1"
        )


class OwnerKeyInvalidError(GatewayError):
    """The message never contains the key."""
