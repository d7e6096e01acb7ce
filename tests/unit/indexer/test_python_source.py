"""Python is read by several threads at once."""

import ast
import gc
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillbus.indexer.domain.package.literals import parse_python

SOURCE = "\n".join(f"def f{number}(a):\n    return [a, {{'b': [1, 2]}}]" for number in range(150)).encode()


@pytest.fixture
def restless_threads() -> Generator[None]:
    """Threads that take turns whenever the garbage is collected, in the middle of what they do."""

    def turn(_phase: str, _info: dict[str, int]) -> None:
        sum(range(2_000))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(turn)
    yield
    gc.callbacks.remove(turn)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_sources_that_are_parsed_at_once_do_not_disturb_one_another() -> None:
    with ThreadPoolExecutor(3) as threads:
        trees = list(threads.map(parse_python, [SOURCE] * 60))
    assert all(isinstance(tree, ast.Module) for tree in trees)


@pytest.mark.parametrize("source", [b"def", b"\0", b"(" * 5_000, b"\xff"])
def test_what_is_no_python_has_no_tree(source: bytes) -> None:
    assert parse_python(source) is None
