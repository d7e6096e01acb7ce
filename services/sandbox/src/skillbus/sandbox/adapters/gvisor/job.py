"""What a container is told to do, and everything that its run is given: nothing of the host's files is shared."""

import os
import resource
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, ENVIRONMENT, INPUT, SKILL
from skillbus.sandbox.adapters.kernel.seccomp import compile_filter
from skillbus.sandbox.adapters.kernel.syscalls import ARCHITECTURES
from skillbus.sandbox.adapters.supervision.protocol import rlimits
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run.limits import MIB
from skillbus.sandbox.domain.run.spec import RunSpec

Entry = tuple[str, int, bytes]
"""Relative path; file mode, or 0 of a link; content, or the link's target."""

_READABLE: Final = 0o444
_EXECUTABLE: Final = 0o555
_PAGES: Final = 8192
"""A file rounded up to a page, and its folder."""


def given_folders(spec: RunSpec) -> dict[str, list[Entry]]:
    """The skill and the files of a run, by the folder where the script sees them. Blocking.

    Raises:
        RunRejected: The skill's folder cannot be read.
    """
    try:
        skill = list(_entries(spec.skill_root))
    except OSError as error:
        raise RunRejected(f"the skill's folder cannot be read: {error}") from error
    return {SKILL: skill, INPUT: [(name, _READABLE, content) for name, content in spec.files.items()]}


def _entries(root: Path) -> Iterator[Entry]:
    for folder, names, files in os.walk(root, onerror=_raise):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            inside = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                yield inside, 0, os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                yield inside, _EXECUTABLE if mode & stat.S_IXUSR else _READABLE, path.read_bytes()


def _raise(error: OSError) -> NoReturn:
    raise error


def sizes(folders: Mapping[str, list[Entry]]) -> dict[str, int]:
    """How many bytes each folder must have."""
    return {path: MIB + sum(len(entry[2]) + _PAGES for entry in entries) for path, entries in folders.items()}


def compile_filters() -> dict[str, bytes]:
    """A system call filter for each machine that an engine may be on."""
    return {machine: compile_filter(architecture) for machine, architecture in ARCHITECTURES.items()}


def engine_job(
    spec: RunSpec, interpreter: str, folders: Mapping[str, list[Entry]], filters: Mapping[str, bytes]
) -> dict[str, object]:
    """As `engine_agent.py` takes it."""
    flags = ("-s", "-B") if spec.runtime is Runtime.PYTHON else ()
    limits = spec.limits
    # Processes are counted by the engine and the agent: the kernel would count those of all containers' common user.
    kinds = {kind: pair for kind, pair in rlimits(spec.runtime, limits).items() if kind != resource.RLIMIT_NPROC}
    return {
        "folders": dict(folders),
        "stdin": spec.stdin,
        "exec": [interpreter, *flags, f"{SKILL}/{spec.script}", *spec.argv],
        "environment": run_environment(spec),
        "rlimits": kinds,
        "filters": dict(filters),
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "inodes": limits.inodes,
        "artifacts": limits.artifacts,
        "artifacts_bytes": limits.artifacts_bytes,
    }


def run_environment(spec: RunSpec) -> dict[str, str]:
    """All of it."""
    environment = dict(ENVIRONMENT)
    if spec.runtime is Runtime.PYTHON:
        environment["PYTHONPATH"] = SKILL if spec.layer is None else f"{SKILL}:{DEPS}"
    if spec.layer is not None:
        environment["NODE_PATH"] = f"{DEPS}/node_modules"
    return environment
