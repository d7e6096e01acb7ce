"""Texts of items."""


def shorten_text(text: str, characters: int) -> str:
    """Return the text, or its beginning and an ellipsis, in at most `characters`."""
    return text if len(text) <= characters else text[: characters - 1] + "…"
