"""Port to the packages that come with requests."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from skillbus.contracts.message import Content


class IncomingPackages(Protocol):
    """Packages on their way in."""

    def opened(self, package: Content) -> AbstractAsyncContextManager[bytes]:
        """The bytes of a package. What came through the object store is taken out of it when the context is left.

        Raises:
            RequestError: `not_found`, `payload_too_large`, or `invalid_request` when the digest is another.
        """
        ...
