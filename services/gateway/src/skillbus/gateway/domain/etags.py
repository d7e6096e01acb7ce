"""Versions as entity tags (RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2): `"3"` is version 3."""

import re
from typing import Final

from skillbus.contracts.errors import ErrorCode, RequestError

ANY: Final = "*"
_TAG: Final = r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"'
_TAGS: Final = re.compile(rf"[ \t,]*{_TAG}(?:[ \t]*,[ \t]*(?:{_TAG})?)*[ \t]*")
_ONE: Final = re.compile(_TAG)
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
"""What `etag` gives; longer ones are of no version."""
_LONGEST: Final = 1_000


def etag(version: int) -> str:
    """The tag of a version."""
    return f'"{version}"'


def expected_version(if_match: str | None) -> int | None:
    """The version that `If-Match` demands; None where any will do.

    Raises:
        RequestError: `precondition_failed` where it can be no version: weak tags match nothing, by the RFC;
            `invalid_request` where it is not a tag, or several.
    """
    if if_match is None or if_match.strip() == ANY:
        return None
    tags = _tags("If-Match", if_match)
    if len(tags) > 1:
        raise RequestError(ErrorCode.INVALID_REQUEST, "If-Match names several versions: name the one that was read.")
    is_weak, tag = tags[0]
    if is_weak or not _VERSION.fullmatch(tag):
        raise RequestError(
            ErrorCode.PRECONDITION_FAILED,
            'If-Match is not the tag of a version: send what the header ETag gave, as "3", with its quotes.',
        )
    return int(tag)


def is_known(if_none_match: str | None, version: int) -> bool:
    """Whether the caller has this version, by `If-None-Match`. Raises `RequestError` when that is no list of tags."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == ANY or str(version) in {tag for _, tag in _tags("If-None-Match", if_none_match)}


def _tags(name: str, value: str) -> list[tuple[bool, str]]:
    """Each tag with whether it is weak."""
    if len(value) > _LONGEST or not _TAGS.fullmatch(value):
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f'{name} is not as the header ETag gave it: send "3", with its quotes.'
        )
    return [(bool(weak), tag) for weak, tag in _ONE.findall(value)]
