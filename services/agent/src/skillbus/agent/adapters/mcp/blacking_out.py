"""Secrets that a server was given, blacked out of what it answers.

It stops those that slip into an error or a description by mistake; a server that wants to tell them can write them
otherwise.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue, SecretStr

_LEAST: Final = 8
"""Characters of a secret: shorter ones stand in other texts by chance."""


def blacked_out(value: JsonValue, secrets: Sequence[SecretStr]) -> JsonValue:
    """The value, `***` in the place of each secret, in the names of fields too. It is walked whole: in a thread."""
    hidden = [text for secret in secrets if len(text := secret.get_secret_value()) >= _LEAST]
    return _walked(value, hidden) if hidden else value


def _walked(value: JsonValue, hidden: Sequence[str]) -> JsonValue:
    if isinstance(value, str):
        return _text(value, hidden)
    if isinstance(value, list):
        return [_walked(item, hidden) for item in value]
    if isinstance(value, dict):
        return {_text(name, hidden): _walked(item, hidden) for name, item in value.items()}
    return value


def _text(text: str, hidden: Sequence[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, "***")
    return text
