"""HTTP headers: content negotiation with `Accept`, and versions as entity tags (`"3"` is version 3).

Sources: RFC 9110, sections 8.8.3 (ETag), 12.5.1 (Accept), 13.1.1 (If-Match) and 13.1.2 (If-None-Match).
"""

import re
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError

ANY: Final = "*"
_ANY_TYPE: Final = "*/*"
_RANGES_MAX: Final = 100
_TAG: Final = r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"'
_TAGS: Final = re.compile(rf"[ \t,]*{_TAG}(?:[ \t]*,[ \t]*(?:{_TAG})?)*[ \t]*")
_ONE: Final = re.compile(_TAG)
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
"""Tags that `make_etag` returns; longer numbers are never versions."""
_TAGS_CHARACTERS: Final = 1_000


def prefers_media_type(accept: str, wanted: str, default: str) -> bool:
    """Return True if `Accept` gives the media type `wanted` a higher weight than the `default` one."""
    return _weigh(accept, wanted) > _weigh(accept, default)


def _weigh(accept: str, media_type: str) -> float:
    """Return the weight from 0 to 1 of the most specific range that matches the media type."""
    family = f"{media_type.partition('/')[0]}/*"
    weights: dict[str, float] = {}
    for part in accept.lower().split(",", _RANGES_MAX)[:_RANGES_MAX]:
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = next((it.removeprefix("q=") for it in parameters if it.startswith("q=")), "1")
        try:
            weights[name] = float(weight)
        except ValueError:
            weights[name] = 0.0
    return next((weights[name] for name in (media_type, family, _ANY_TYPE) if name in weights), 0.0)


def make_etag(version: int) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def parse_if_match(if_match: str | None) -> int | None:
    """Return the version that `If-Match` requires; None if any version will do.

    Raises:
        RequestError: `precondition_failed` if the tag cannot be a version (weak tags never match, says the RFC);
            `invalid_request` if the header is not one tag.
    """
    if if_match is None or if_match.strip() == ANY:
        return None
    tags = _parse_tags("If-Match", if_match)
    if len(tags) > 1:
        raise RequestError(ErrorCode.INVALID_REQUEST, "If-Match names several versions: send the one that you read.")
    is_weak, tag = tags[0]
    if is_weak or not _VERSION.fullmatch(tag):
        raise RequestError(
            ErrorCode.PRECONDITION_FAILED,
            'If-Match is not the tag of a version: send the value of the header ETag, such as "3", with its quotes.',
        )
    return int(tag)


def is_known_version(if_none_match: str | None, version: int) -> bool:
    """Return True if `If-None-Match` says that the caller has this version. Raises RequestError for invalid tags."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == ANY:
        return True
    return str(version) in {tag for _, tag in _parse_tags("If-None-Match", if_none_match)}


def _parse_tags(name: str, value: str) -> list[tuple[bool, str]]:
    """Return each tag, and True before it if the tag is weak."""
    if len(value) > _TAGS_CHARACTERS or not _TAGS.fullmatch(value):
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f'{name} is not an entity tag: send the value of the header ETag, such as "3", with its quotes.',
        )
    return [(bool(weak), tag) for weak, tag in _ONE.findall(value)]
