"""Keys of providers by reference, as `skillbus.common.secrets` reads them."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from skillbus.common import secrets
from skillbus.embedder.domain.errors import ModelUnavailableError


class SecretUnreadableError(ModelUnavailableError):
    """Names the reference, never what it leads to."""

    def __init__(self, said: secrets.SecretUnreadableError) -> None:
        super().__init__(str(said))
        self.reference = said.reference


class Secrets:
    """Reads keys."""

    def __init__(self, environment: Mapping[str, str] = os.environ, folder: Path = Path("/run/secrets")) -> None:
        self._secrets = secrets.Secrets(environment, folder)

    def resolve(self, reference: str) -> SecretStr:
        """The key. Raises SecretUnreadableError when there is none, or it may not be read, or it is no key."""
        try:
            return self._secrets.resolve(reference)
        except secrets.SecretUnreadableError as error:
            raise SecretUnreadableError(error) from error
