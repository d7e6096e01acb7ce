"""Secrets by reference, and their redaction in texts.

A reference is `env:NAME`, an environment variable, or `file:PATH`, a file in the folder of secrets. It is resolved at
each use, so that a rotated secret takes effect at once and none is kept. It resolves only for the places that the
operator listed with it (`skillbus.common.outbound.secret_grants`). In functions that raise, no variable holds a
secret, so that no traceback can show one.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue, SecretStr

from skillbus.common.outbound.secret_grants import SETTING, Destination, SecretGrants, is_place_of

REDACTED: Final = "***"
MIN_SECRET_CHARACTERS: Final = 8
"""Shorter values are not redacted by default: `8080` or `debug` appear in other texts by chance."""
_FILE_BYTES: Final = 64 * 1024
_OURS: Final = "SKILLBUS_"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_KEY: Final = re.compile(r"[\x21-\x7e]+")  # what can stand in a header's credentials: no space, no line break
_LINE: Final = re.compile(r"[\x20-\x7e]+")
REFERENCE: Final = re.compile(r"(?:env|file):.+", re.DOTALL)


class SecretUnreadableError(Exception):
    """A secret cannot be read. The message names the reference, never the secret."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(f"the key {reference} cannot be used: {reason}")


class SecretNotGrantedError(SecretUnreadableError):
    """The operator did not list the reference, or not for this place. The message says which setting to change."""


class Secrets:
    """Resolves references to secrets that the operator listed."""

    def __init__(
        self,
        grants: SecretGrants,
        environment: Mapping[str, str] = os.environ,
        folder: Path = Path("/run/secrets"),
    ) -> None:
        self._grants = grants
        self._environment = environment
        self._folder = folder

    def resolve(self, reference: str, destination: Destination) -> SecretStr:
        """Return a key without spaces, to be sent to `destination` and nowhere else.

        Raises:
            SecretNotGrantedError: It must not be sent there.
            SecretUnreadableError: The secret does not exist, must not be read, or is not a key.
        """
        key = self._resolve(reference, destination)
        if not _BARE_KEY.fullmatch(key.get_secret_value()):
            raise SecretUnreadableError(
                reference, "it is empty, or holds white space, control or non-ASCII characters; store the bare key"
            )
        return key

    def resolve_line(self, reference: str, destination: Destination) -> SecretStr:
        """Return a line of ASCII, such as the header value `Bearer <key>`. Raises as `resolve` does."""
        line = self._resolve(reference, destination)
        if not _LINE.fullmatch(line.get_secret_value()):
            raise SecretUnreadableError(reference, "it is empty, or not a single line of printable ASCII")
        return line

    def _resolve(self, reference: str, destination: Destination) -> SecretStr:
        kind, _, place = reference.partition(":")
        if kind == "env":
            self._check_variable(reference, place)
            self._check_grant(reference, self._grants.variables.get(place), place, destination)
            return self._read_variable(reference, place)
        if kind == "file":
            path = self._check_place(reference, place)
            places = self._grants.find_file_places(self._folder / place, self._folder)
            self._check_grant(reference, places, reference, destination)
            return self._read_file(reference, path)
        # Not quoted: somebody may have written a key in place of a reference.
        raise SecretUnreadableError("reference", "it begins neither with env: nor with file:")

    def _check_grant(
        self, reference: str, places: frozenset[Destination] | None, name: str, destination: Destination
    ) -> None:
        if places is None:
            raise SecretNotGrantedError(reference, f"it is not listed; add {name}={destination} to {SETTING}")
        if not is_place_of(destination, places):
            raise SecretNotGrantedError(
                reference, f"it must not be sent to {destination}; if it should, add that place to {name} in {SETTING}"
            )

    def _check_variable(self, reference: str, name: str) -> None:
        if not _VARIABLE.fullmatch(name):
            raise SecretUnreadableError(reference, "that is not a name of an environment variable")
        if name.upper().startswith(_OURS):
            raise SecretUnreadableError(
                reference, f"variables that begin with {_OURS} are not for providers and servers"
            )

    def _read_variable(self, reference: str, name: str) -> SecretStr:
        if name not in self._environment:
            raise SecretUnreadableError(reference, "the service has no such environment variable; set it")
        return SecretStr(self._environment[name].strip())

    def _read_file(self, reference: str, path: Path) -> SecretStr:
        problem = None
        try:
            content = _read_plain_file(path)
        except OSError as error:
            problem = error.strerror or type(error).__name__
        if problem is not None:
            raise SecretUnreadableError(reference, problem)
        if content is None:
            raise SecretUnreadableError(reference, f"it is not a plain file of at most {_FILE_BYTES} bytes")
        return SecretStr(content.decode("latin-1").strip())  # bytes that are not ASCII are refused later

    def _check_place(self, reference: str, place: str) -> Path:
        outside = SecretUnreadableError(reference, f"only files below {self._folder} are read")
        if "\0" in place or ".." in Path(place).parts:
            raise outside
        folder = self._folder.resolve()
        try:
            path = (self._folder / place).resolve()
        except (OSError, RuntimeError):  # a loop of links
            raise outside from None
        if not path.is_relative_to(folder):
            raise outside
        return path


def _read_plain_file(path: Path) -> bytes | None:
    """Return the content of a plain file; None if it is another kind or too large. Never waits for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(_FILE_BYTES + 1)
    return content if len(content) <= _FILE_BYTES else None


def redact_text(text: str, secrets: Iterable[SecretStr], min_characters: int = MIN_SECRET_CHARACTERS) -> str:
    """Return the text with `***` in place of each secret of at least `min_characters`.

    This catches secrets that slip into a text by mistake. A text that leaks them on purpose can encode them.
    """
    for secret in _secret_values(secrets, min_characters):
        text = text.replace(secret, REDACTED)
    return text


def redact_json(value: JsonValue, secrets: Iterable[SecretStr]) -> JsonValue:
    """Redact all strings of a JSON value as `redact_text` does, names of fields included.

    It walks the whole value: call it in a thread for large ones.
    """
    hidden = _secret_values(secrets, MIN_SECRET_CHARACTERS)
    return _redact_value(value, hidden) if hidden else value


def _secret_values(secrets: Iterable[SecretStr], min_characters: int) -> list[str]:
    values = {secret.get_secret_value() for secret in secrets}
    # The longest first: one secret can be a part of another.
    return sorted((value for value in values if len(value) >= max(min_characters, 1)), key=len, reverse=True)


def _redact_value(value: JsonValue, hidden: Sequence[str]) -> JsonValue:
    if isinstance(value, str):
        for secret in hidden:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, list):
        return [_redact_value(item, hidden) for item in value]
    if isinstance(value, dict):
        return {str(_redact_value(name, hidden)): _redact_value(item, hidden) for name, item in value.items()}
    return value
