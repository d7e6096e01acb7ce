"""Scopes: what a knowledge item applies to. A scope is a path of segments, a pattern of paths, or empty for everything.

    ""                    general: everything; `*` means the same
    /api/live/rooms       path
    /api/live/*           pattern: /api/live and everything below it, at any depth
    /api/*/rooms          pattern: an inner `*` stands for exactly one segment
    module:payments       name with a kind: the kind is the first segment
    妇女权益保障法           any other name: one segment

Scopes are case-sensitive. A leading slash is part of the scope; a trailing slash is not.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.message import WITHOUT_NUL

ANY: Final = "*"
SCOPE_CHARACTERS: Final = 300
"""Longest scope, in characters."""
SEGMENTS: Final = 16
"""Most segments of a scope."""


class ScopeMatch(StrEnum):
    """Relation of an item's scope to the requested scope, nearest first."""

    EXACT = "exact"
    """The same scope."""
    WITHIN = "within"
    """Below the requested pattern."""
    PATTERN = "pattern"
    """Pattern that covers the requested scope."""
    PARENT = "parent"
    """Path above the requested scope."""
    GENERAL = "general"
    """Empty scope: applies to everything."""


def split_scope(scope: str) -> tuple[str, ...]:
    """Return the segments of a normalized scope; none for the general scope."""
    if not scope:
        return ()
    kind, colon, name = scope.partition(":")
    if colon and name and "/" not in kind:
        return (f"{kind}:", *name.split("/"))
    path = scope.removeprefix("/").split("/")
    return ("/", *path) if scope.startswith("/") else tuple(path)


def normalize_scope(scope: str) -> str:
    """Return the canonical spelling of a scope. Raises ValueError with advice if it is not a scope."""
    stripped = "/".join(part.strip() for part in scope.split("/"))
    scope = stripped.rstrip("/") or ("/" if stripped.startswith("/") else "")
    if scope in {ANY, "/", "/*"}:
        return ""
    parts = split_scope(scope)
    if len(parts) > SEGMENTS:
        raise ValueError(f"has more than {SEGMENTS} segments: shorten it")
    for part in parts:
        if part in {"", ".", ".."}:
            raise ValueError(f"has a segment {part!r}: write it as /api/live/rooms, /api/live/* or module:name")
        if ANY in part and part != ANY:
            raise ValueError(f"has a segment {part!r}: `*` stands for a whole segment, as in /api/live/*")
        if not part.isprintable():
            raise ValueError("contains control characters: remove them")
    return scope


Scope = Annotated[
    str,
    StringConstraints(max_length=SCOPE_CHARACTERS),
    WITHOUT_NUL,
    AfterValidator(normalize_scope),
    Field(
        description="What the item applies to: `/api/live/rooms`, `/api/live/*`, `module:name`. Empty means everything."
    ),
]


def get_fixed_part(scope: str) -> tuple[str, ...]:
    """Return the segments before the first `*`: all segments of a path, none of the general scope."""
    parts = split_scope(scope)
    return parts[: parts.index(ANY)] if ANY in parts else parts


def get_scope_key(scope: str) -> str:
    """Return the fixed part of a scope as one keyword for an index."""
    return "/".join(get_fixed_part(scope))


def list_ancestor_keys(scope: str) -> tuple[str, ...]:
    """Return the scope keys of the fixed part and of all its prefixes, down to the key of the general scope.

    Every scope that covers `wanted` or lies above it has one of `list_ancestor_keys(wanted)` as its `get_scope_key`.
    Every scope below a pattern `wanted` has `get_scope_key(wanted)` among its `list_ancestor_keys`. Other scopes may
    have these keys too: `match_scope` decides.
    """
    parts = get_fixed_part(scope)
    return tuple("/".join(parts[:length]) for length in range(len(parts), -1, -1))


def match_scope(scope: str, wanted: str) -> ScopeMatch | None:
    """Return the relation of an item's scope to the `wanted` scope; None if the item does not apply to it."""
    have, want = split_scope(scope), split_scope(wanted)
    if have == want:
        return ScopeMatch.EXACT
    if not have:
        return ScopeMatch.GENERAL
    if ANY in have and _covers(have, want):
        return ScopeMatch.PATTERN
    if ANY in want and _covers(want, have):
        return ScopeMatch.WITHIN
    if ANY not in have and have == want[: len(have)]:
        return ScopeMatch.PARENT
    return None


def _covers(pattern: tuple[str, ...], scope: tuple[str, ...]) -> bool:
    """Return True if `pattern` covers everything that `scope` stands for. A final `*` covers any number of segments."""
    fixed = pattern[:-1] if pattern[-1] == ANY else pattern
    if len(scope) < len(fixed) or (fixed is pattern and len(scope) != len(fixed)):
        return False
    return all(part in {ANY, other} for part, other in zip(fixed, scope, strict=False))
