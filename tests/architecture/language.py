"""House rules on docstrings and class names, as functions over source text."""

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_FORBIDDEN_OPENER: Final = re.compile(r"(What|Whether|Which|Who|Whom|Whose|Of|As|So|That|It|If|How|Where|When)\b")
_ARTICLE: Final = re.compile(r"(The|A|An|Those|These|This|All|Each|Every|Nothing|None)\b")
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PROPERTIES: Final = frozenset({"property", "cached_property"})


def find_bad_openers(source: str) -> Iterator[str]:
    """Yield one message per docstring that opens with a relative clause, or with an article on a function."""
    for node in ast.walk(ast.parse(source)):
        for line, text in _docstrings(node):
            if _FORBIDDEN_OPENER.match(text):
                yield f"line {line}: {text.splitlines()[0]}"
            elif _is_plain_function(node, line) and _ARTICLE.match(text):
                yield f"line {line}: start with a verb: {text.splitlines()[0]}"


def _docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the docstring of a node, and those of the assignments in its body."""
    if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
        yield getattr(node, "lineno", 1), text
    body = getattr(node, "body", None)
    statements = body if isinstance(body, list) else []
    for before, after in itertools.pairwise(statements):
        if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
            value = after.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield after.lineno, value.value


def _is_plain_function(node: ast.AST, line: int) -> bool:
    """Return True for a function that starts on this line; a property is documented as the noun that it is."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.lineno != line:
        return False
    names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.decorator_list}
    return names.isdisjoint(_PROPERTIES)


def find_duplicate_classes(sources: Mapping[Path, str]) -> dict[str, list[Path]]:
    """Return the public class names defined in more than one file, with their files."""
    places: dict[str, list[Path]] = {}
    for path, source in sources.items():
        names = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
        for name in names:
            if not name.startswith("_"):
                places.setdefault(name, []).append(path)
    return {name: sorted(paths) for name, paths in sorted(places.items()) if len(paths) > 1}
