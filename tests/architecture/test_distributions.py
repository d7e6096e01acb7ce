"""Each distribution installs alone: what it imports it requires, or a library of this repository that it requires does.

`skillbus-common` decides for all services which pydantic and which nats-py they use, so that no two disagree.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

from .tree import ROOT, Distribution, distributions, named

MEMBERS = distributions()
LIBRARIES: Final = {member.name: member for member in MEMBERS if member.folder.parent.name == "libs"}
PARTS_OF_THEIR_API: Final = {
    "jsonschema": {"referencing"},  # raises its errors
    "pydantic": {"typing-extensions"},  # reads the TypedDict of no other, before Python 3.12
    "pydantic-settings": {"pydantic"},  # settings are pydantic models
    "qdrant-client": {"grpcio"},  # raises grpc's errors, of the version that it chooses
}


def imported(source: str) -> Iterator[str]:
    """Full names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (
                (f"skillbus.{alias.name}" for alias in node.names) if node.module == "skillbus" else [node.module]
            )


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(member: Distribution) -> Iterator[str]:
    """Names of what a member requires, of what the libraries here among them require, and its own."""
    yield normal(member.name)
    for requirement in member.dependencies:
        name = normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        yield name
        yield from PARTS_OF_THEIR_API.get(name, ())
        if name in LIBRARIES:
            yield from requirements(LIBRARIES[name])


def providers(module: str) -> set[str]:
    """Distributions that an import can come from; none for the standard library."""
    top, _, rest = module.partition(".")
    if top in sys.stdlib_module_names:
        return set()
    if top == "skillbus":
        package = f"skillbus.{rest.split('.')[0]}"
        return {normal(member.name) for member in MEMBERS if package in member.packages}
    return {normal(name) for name in installed_packages().get(top, [top])}


@cache
def installed_packages() -> Mapping[str, list[str]]:
    """Map each importable package to its distributions. Reading them from disk takes .1 s."""
    return packages_distributions()


def undeclared(member: Distribution, source: str) -> set[str]:
    return {
        module
        for module in imported(source)
        if (known := providers(module)) and known.isdisjoint(set(requirements(member)))
    }


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_what_a_distribution_imports_it_declares(member: Distribution) -> None:
    found = {f"{named(file)}: {module}" for file in member.modules for module in undeclared(member, file.read_text())}
    assert not found, f"declare it in {named(member.folder / 'pyproject.toml')}, or do not import it"


def test_an_undeclared_import_is_found_also_inside_a_function() -> None:
    contracts = next(member for member in MEMBERS if member.name == "skillbus-contracts")
    source = "import json, pydantic\ndef f():\n    import nats.aio.client\n    from skillbus import common\n"
    assert undeclared(contracts, source) == {"nats.aio.client", "skillbus.common"}


def test_skillbus_is_a_namespace_that_no_distribution_takes_for_itself() -> None:
    """An `__init__.py` there would hide the packages of all other distributions."""
    taken = [
        file
        for pattern in ("src", "libs/*/src", "services/*/src")
        for file in ROOT.glob(f"{pattern}/skillbus/__init__.py")
    ]
    assert not taken


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_every_folder_with_modules_is_a_typed_package(member: Distribution) -> None:
    """Without `__init__.py` a folder is not checked and not packed; without `py.typed` its types are ignored."""
    tops = [member.folder / "src" / package.replace(".", "/") for package in member.packages]
    missing: list[Path] = [top / "py.typed" for top in tops if not (top / "py.typed").is_file()]
    missing += [file.parent / "__init__.py" for file in member.modules if not (file.parent / "__init__.py").is_file()]
    assert not missing
