"""Text policy of devices: one text for the dense vector, and two for the sparse vector."""

from collections.abc import Sequence

_MAX_CHARS = 2_000


def build_device_dense_text(name: str, aliases: Sequence[str], room: str | None, device_type: str) -> str:
    """Build the text for a sentence model: everything by which a person describes the device."""
    return _join_parts((name, *aliases, room or "", device_type.replace("_", " ")))


def build_device_lexical_text(name: str, aliases: Sequence[str], room: str | None) -> str:
    """Build the text for BM25. Names stay whole: the lexical encoder splits them and keeps both forms."""
    return _join_parts((name, *aliases, room or ""))


def build_device_aside_text(device_type: str) -> str:
    """Build the text for BM25 that counts half."""
    return device_type.replace("_", " ")


def _join_parts(parts: Sequence[str]) -> str:
    return " ".join(part for part in parts if part)[:_MAX_CHARS]
