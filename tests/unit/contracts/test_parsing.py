from collections.abc import Iterator

import pytest

from skillbus.contracts.parsing import parse_undisturbed


class DisturbedParser:
    """A parser that another thread disturbs a number of times."""

    def __init__(self, times: int) -> None:
        self._disturbances: Iterator[int] = iter(range(times))

    def parse(self) -> str:
        for _ in self._disturbances:
            raise SystemError("AST constructor recursion depth mismatch (before=234, after=38)")
        return "tree"


def test_a_parser_that_another_thread_disturbs_parses_again() -> None:
    assert parse_undisturbed(DisturbedParser(2).parse) == "tree"


def test_a_parser_that_fails_each_time_fails() -> None:
    with pytest.raises(SystemError):
        parse_undisturbed(DisturbedParser(100).parse)


def test_a_source_that_is_no_python_is_refused_at_once() -> None:
    with pytest.raises(SyntaxError):
        parse_undisturbed(lambda: compile("1 +", "source", "eval"))
