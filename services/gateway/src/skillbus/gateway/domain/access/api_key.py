"""Text of API keys: `skb_<id>_<secret>`.

The prefix lets scanners of source code find a leaked key. The id finds the record without trying every hash. The secret
has 256 random bits, so that one round of SHA-256 protects it: a slow hash helps only secrets that can be guessed.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

_PREFIX: Final = "skb"
_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"skb_([a-z0-9]{8,32})_([A-Za-z0-9_-]{43})")
"""32 bytes are 43 characters of base64url without padding."""


@dataclass(frozen=True, slots=True)
class KeyText:
    """An API key as its owner has it. The secret is in no repr."""

    id: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """Return the text of the key."""
        return f"{_PREFIX}_{self.id}_{self.secret}"

    def hash_secret(self) -> str:
        """Return the SHA-256 of the secret in hexadecimal."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches_hash(self, secret_sha256: str) -> bool:
        """Compare the secret with a stored hash. The time of the comparison tells nothing about either."""
        return hmac.compare_digest(self.hash_secret().encode(), secret_sha256.encode())


def parse_key(text: str) -> KeyText | None:
    """Return the parts of a key; None if the text is not one."""
    match = _TEXT.fullmatch(text)
    return None if match is None else KeyText(match[1], match[2])


def make_key() -> KeyText:
    """Return a new random key."""
    return KeyText(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))
