"""What a piece of knowledge applies to: a path of segments, a pattern of them, or, when empty, everything.

    ""                    general: everything; `*` alone is written so too
    /api/live/rooms       a path
    /api/live/*           a pattern: /api/live and whatever lies below it, at any depth
    /api/*/rooms          a pattern: `*` in between stands for one segment
    module:payments       a thing of a kind: one more segment behind the kind
    妇女权益保障法           any other name: one segment

Case counts. A leading slash belongs to the scope; one at the end does not.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from skillbus.contracts.message import WITHOUT_NUL

ANY: Final = "*"
SCOPE_CHARACTERS: Final = 300
SEGMENTS: Final = 16


class ScopeMatch(StrEnum):
    """How the scope of an item lies to the one that is asked for, nearest first."""

    EXACT = "exact"
    WITHIN = "within"
    """Below the pattern that is asked for."""
    PATTERN = "pattern"
    """A pattern that covers what is asked for."""
    PARENT = "parent"
    """A path above it."""
    GENERAL = "general"
    """Of everything."""


def split_scope(scope: str) -> tuple[str, ...]:
    """The segments of a scope as `normalised` gives it; none of the general one."""
    if not scope:
        return ()
    kind, colon, name = scope.partition(":")
    if colon and name and "/" not in kind:
        return (f"{kind}:", *name.split("/"))
    path = scope.removeprefix("/").split("/")
    return ("/", *path) if scope.startswith("/") else tuple(path)


def normalize_scope(scope: str) -> str:
    """The one way to write a scope: it stays as it is then. Raises ValueError, which says what is wrong with it."""
    stripped = "/".join(part.strip() for part in scope.split("/"))
    scope = stripped.rstrip("/") or ("/" if stripped.startswith("/") else "")
    if scope in {ANY, "/", "/*"}:
        return ""
    parts = split_scope(scope)
    if len(parts) > SEGMENTS:
        raise ValueError(f"has more than {SEGMENTS} segments: say less of it")
    for part in parts:
        if part in {"", ".", ".."}:
            raise ValueError(f"has a segment {part!r}: write it as /api/live/rooms, /api/live/* or module:name")
        if ANY in part and part != ANY:
            raise ValueError(f"has a segment {part!r}: `*` stands for whole segments, as in /api/live/*")
        if not part.isprintable():
            raise ValueError("holds control characters: send it without them")
    return scope


Scope = Annotated[
    str,
    StringConstraints(max_length=SCOPE_CHARACTERS),
    WITHOUT_NUL,
    AfterValidator(normalize_scope),
    Field(description="What it applies to: `/api/live/rooms`, `/api/live/*`, `module:name`; empty: everything."),
]


def get_fixed_part(scope: str) -> tuple[str, ...]:
    """The segments before the first `*`: all of a path, none of the general scope."""
    parts = split_scope(scope)
    return parts[: parts.index(ANY)] if ANY in parts else parts


def get_scope_key(scope: str) -> str:
    """The fixed part as one word, as an index keeps it."""
    return _key(get_fixed_part(scope))


def list_ancestor_keys(scope: str) -> tuple[str, ...]:
    """The keys of its fixed part and of all beginnings of it, down to the general scope's.

    Scopes that cover `wanted`, or lie above it, have one of `keys_above(wanted)` as their `fixed_key`; those below the
    pattern `wanted` have `fixed_key(wanted)` among their `keys_above`. Others may too: `match` decides.
    """
    parts = get_fixed_part(scope)
    return tuple(_key(parts[:length]) for length in range(len(parts), -1, -1))


def match_scope(scope: str, wanted: str) -> ScopeMatch | None:
    """How an item's scope lies to the `wanted` one; None where it says nothing about it."""
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


def _key(parts: tuple[str, ...]) -> str:
    return "/".join(parts)


def _covers(pattern: tuple[str, ...], scope: tuple[str, ...]) -> bool:
    """Whether all that `scope` stands for lies in `pattern`, whose last `*` stands for any number of segments."""
    fixed = pattern[:-1] if pattern[-1] == ANY else pattern
    if len(scope) < len(fixed) or (fixed is pattern and len(scope) != len(fixed)):
        return False
    return all(part in {ANY, other} for part, other in zip(fixed, scope, strict=False))
