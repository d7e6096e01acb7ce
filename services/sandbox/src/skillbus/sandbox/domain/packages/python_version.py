"""Check of a Python version against `requires-python`."""

import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

_Compare: TypeAlias = Callable[[tuple[int, ...], tuple[int, ...]], bool]
_OPERATORS: Final[Mapping[str, _Compare]] = {
    "===": op.eq, "==": op.eq, "!=": op.ne, ">=": op.ge, "<=": op.le, ">": op.gt, "<": op.lt,
}  # fmt: skip
_CLAUSE: Final = re.compile(r"(===|==|~=|!=|<=|>=|<|>)(\d+(?:\.\d+)*)(\.\*)?")


def is_python_supported(version: Sequence[int], wanted: str) -> bool:
    """Return True if `version`, like (3, 11, 2), satisfies `requires-python`, like `>=3.11,<4`.

    Only releases are compared: a clause with another kind of version, like `>=3.12rc1`, is never satisfied.
    """
    return all(_fits(tuple(version), clause) for clause in wanted.split(",") if clause)


def _fits(version: tuple[int, ...], clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return False
    operator, release, wildcard = found.groups()
    named = tuple(map(int, release.split(".")))
    if wildcard and operator not in {"==", "!="}:
        return False
    ours, theirs = _pad_versions(version[: len(named)] if wildcard else version, named)
    if operator == "~=":  # `~=3.11` is `>=3.11,==3.*`
        return len(named) > 1 and ours >= theirs and ours[: len(named) - 1] == theirs[: len(named) - 1]
    return _OPERATORS[operator](ours, theirs)


def _pad_versions(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    length = max(len(one), len(other))
    return one + (0,) * (length - len(one)), other + (0,) * (length - len(other))
