"""Names and docstrings that a reader can search and understand (docs/glossary.md, CONTRIBUTING.md)."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from .language import find_bad_openers, find_duplicate_classes
from .tree import Distribution, distributions, named, product_modules

JUSTIFIED_DUPLICATES: Final[dict[str, str]] = {}
"""Public class names that may exist twice, each with its reason."""

MODULES_MAX: Final = 14
"""Modules in one folder, `__init__.py` not counted."""


@pytest.mark.parametrize("member", distributions(), ids=lambda member: member.name)
def test_docstrings_open_with_a_verb_or_a_noun(member: Distribution) -> None:
    found = [f"{named(file)}: {bad}" for file in member.modules for bad in find_bad_openers(file.read_text())]
    assert not found


@pytest.mark.parametrize("member", distributions(), ids=lambda member: member.name)
def test_a_folder_holds_few_modules(member: Distribution) -> None:
    counts = Counter(file.parent for file in member.modules if file.name != "__init__.py")
    assert not {named(folder): count for folder, count in counts.items() if count > MODULES_MAX}


def test_public_class_names_are_unique() -> None:
    sources = {file: file.read_text(encoding="utf-8") for file in product_modules()}
    twice = find_duplicate_classes(sources)
    assert twice.keys() == JUSTIFIED_DUPLICATES.keys(), {name: [named(path) for path in twice[name]] for name in twice}


@pytest.mark.parametrize(
    "source",
    [
        '"""What it is."""\n',
        'def f():\n    """Whether it is."""\n',
        'def f():\n    """The name of it."""\n',
        'class C:\n    """Of what it is made."""\n',
        'class C:\n    x: int\n    """As it was."""\n',
        'X = 1\n"""So that it is known."""\n',
    ],
)
def test_a_docstring_that_opens_with_a_relative_clause_is_found(source: str) -> None:
    assert list(find_bad_openers(source))


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return the name."""\n',
        'class C:\n    """A name."""\n',
        'class C:\n    @property\n    def x(self):\n        """The name."""\n',
        'X = 1\n"""The name."""\n',
        'def f():\n    """Asks the server."""\n',
    ],
)
def test_a_docstring_that_opens_with_a_verb_or_a_noun_is_fine(source: str) -> None:
    assert not list(find_bad_openers(source))


def test_a_class_name_of_two_files_is_found_and_a_private_one_is_not() -> None:
    one, two = Path("a.py"), Path("b.py")
    sources = {one: "class Hit: ...\nclass _Row: ...\n", two: "class Hit: ...\nclass _Row: ...\n"}
    assert find_duplicate_classes(sources) == {"Hit": [one, two]}
