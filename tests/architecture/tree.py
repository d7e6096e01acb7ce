"""The checkout as the architecture tests see it: distributions, modules and committed files."""

import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A member of the workspace, or its root."""

    name: str
    """Name in its pyproject: `skillbus-indexer`."""
    folder: Path
    packages: tuple[str, ...]
    """Import packages: `skillbus.indexer`."""
    dependencies: tuple[str, ...]
    """Declared requirements, including those of its extras."""

    @property
    def modules(self) -> Sequence[Path]:
        """Python files of its packages."""
        folders = (self.folder / "src" / package.replace(".", "/") for package in self.packages)
        return sorted(file for folder in folders for file in folder.rglob("*.py"))


@cache
def distributions() -> Sequence[Distribution]:
    """Return the root and every member of the workspace."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]
    return [_distribution(file) for file in sorted(files)]


def _distribution(file: Path) -> Distribution:
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    modules = read["tool"]["uv"]["build-backend"]["module-name"]
    packages = (modules,) if isinstance(modules, str) else tuple(modules)
    project = read["project"]
    extras = (one for some in project.get("optional-dependencies", {}).values() for one in some)
    return Distribution(project["name"], file.parent, packages, (*project["dependencies"], *extras))


def services() -> Sequence[str]:
    """Return the import packages of the services."""
    return sorted(name for one in distributions() if one.folder.parent.name == "services" for name in one.packages)


def product_modules() -> Sequence[Path]:
    """Return every Python file that is delivered."""
    return [module for one in distributions() for module in one.modules]


def committed_files() -> Sequence[Path]:
    """Return every file that git tracks and that exists."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def named(path: Path) -> str:
    """Return the path of a file relative to the root."""
    return path.relative_to(ROOT).as_posix()
