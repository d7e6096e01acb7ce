"""No function of ours runs between fork and exec: in a process with threads it can wait for a lock forever.

`user=`, `process_group=` and `start_new_session=` of subprocess, setpriv and `bind_to_parent` do the same safely.
"""

import ast
from collections.abc import Iterator

from .tree import named, product_modules


def functions_before_exec(source: str) -> Iterator[int]:
    """Lines of calls that pass `preexec_fn`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "preexec_fn":
            yield node.value.lineno


def test_no_child_process_runs_our_code_before_its_program() -> None:
    found = [
        f"{named(file)}:{line}"
        for file in product_modules()
        for line in functions_before_exec(file.read_text(encoding="utf-8"))
    ]
    assert not found


def test_a_function_that_runs_before_exec_is_seen() -> None:
    assert list(functions_before_exec("start(\n    argv,\n    preexec_fn=prepare,\n)\n")) == [3]
