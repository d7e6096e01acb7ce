"""Which of two media types a caller would rather have (RFC 9110, section 12.5.1)."""

from typing import Final

_ANYTHING: Final = "*/*"


def prefers(accept: str, wanted: str, usual: str) -> bool:
    """Whether `Accept` weighs the media type `wanted` above the `usual` one, which is answered otherwise."""
    return _weight(accept, wanted) > _weight(accept, usual)


def _weight(accept: str, media_type: str) -> float:
    """From 0 to 1, by the range that names the type most closely."""
    family = f"{media_type.partition('/')[0]}/*"
    found = dict(_range(part) for part in accept.lower().split(",", 100)[:100])
    return next((found[name] for name in (media_type, family, _ANYTHING) if name in found), 0.0)


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    given = next((it.removeprefix("q=") for it in parameters if it.startswith("q=")), "1")
    try:
        return name, float(given)
    except ValueError:
        return name, 0.0
