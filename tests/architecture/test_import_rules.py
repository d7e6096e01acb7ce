"""The import rules, which `make check` runs, cover every distribution."""

import tomllib
from typing import Final

from .tree import ROOT, distributions, services

_SETTINGS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
_RULES: Final = {rule["id"]: rule for rule in _SETTINGS["importlinter"]["contracts"]}


def test_every_distribution_is_under_the_rules() -> None:
    packages = {package for one in distributions() for package in one.packages}
    layers = {name.strip() for layer in _RULES["distributions"]["layers"] for name in layer.split("|")}
    assert set(_SETTINGS["importlinter"]["root_packages"]) == packages
    assert layers == packages


def test_every_service_is_under_the_rules_for_services() -> None:
    assert sorted(_RULES["inside-a-service"]["containers"]) == services()
    assert sorted(_RULES["domain-without-engines"]["source_modules"]) == [f"{name}.domain" for name in services()]


def test_every_distribution_is_type_checked() -> None:
    """mypy looks for `skillbus.*` only where it is told to."""
    path = str(_SETTINGS["mypy"]["mypy_path"]).replace("$MYPY_CONFIG_FILE_DIR", str(ROOT)).split(":")
    assert sorted(path) == sorted(str(one.folder / "src") for one in distributions())
