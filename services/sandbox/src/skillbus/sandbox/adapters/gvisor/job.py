"""Job of a container's agent, with everything that its run is given: no file of the skill is shared with the host."""

import os
import resource
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

from skillbus.contracts.indexer.skill_record import Runtime
from skillbus.sandbox.adapters.bubblewrap.profile import DEPS, ENVIRONMENT, INPUT, SKILL
from skillbus.sandbox.adapters.supervision.protocol import make_rlimits
from skillbus.sandbox.domain.errors import RunRejected
from skillbus.sandbox.domain.run.limits import MIB
from skillbus.sandbox.domain.run.spec import RunSpec

GivenFile = tuple[str, int, bytes]
"""Relative path; file mode, or 0 for a link; content, or target of the link."""

_READABLE: Final = 0o444
_EXECUTABLE: Final = 0o555
_FILE_OVERHEAD: Final = 8192
"""Bytes that a file takes at most besides its content: rounding to a page, and its folder."""


def collect_files(spec: RunSpec) -> dict[str, list[GivenFile]]:
    """Return the files of the skill and of the run, by the folder in which the script sees them. Blocking.

    Raises:
        RunRejected: The skill's folder cannot be read.
    """
    try:
        skill = list(_walk_files(spec.skill_root))
    except OSError as error:
        raise RunRejected(f"the skill's folder cannot be read: {error}") from error
    return {SKILL: skill, INPUT: [(name, _READABLE, content) for name, content in spec.files.items()]}


def _walk_files(root: Path) -> Iterator[GivenFile]:
    def fail(error: OSError) -> NoReturn:
        raise error

    for folder, names, files in os.walk(root, onerror=fail):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            inside = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                yield inside, 0, os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                yield inside, _EXECUTABLE if mode & stat.S_IXUSR else _READABLE, path.read_bytes()


def measure_folders(folders: Mapping[str, list[GivenFile]]) -> dict[str, int]:
    """Return the size in bytes that each folder needs."""
    return {path: MIB + sum(len(file[2]) + _FILE_OVERHEAD for file in files) for path, files in folders.items()}


def make_job(
    spec: RunSpec, interpreter: str, folders: Mapping[str, list[GivenFile]], instructions: bytes
) -> dict[str, object]:
    """Return the job in the form that `inside/gvisor_agent.py` reads. `instructions` is the system call filter."""
    flags = ("-s", "-B") if spec.runtime is Runtime.PYTHON else ()
    limits = spec.limits
    # The agent counts processes: the kernel would count those of the user that all containers share.
    kinds = {kind: pair for kind, pair in make_rlimits(spec.runtime, limits).items() if kind != resource.RLIMIT_NPROC}
    return {
        "folders": dict(folders),
        "stdin": spec.stdin,
        "exec": [interpreter, *flags, f"{SKILL}/{spec.script}", *spec.argv],
        "environment": make_environment(spec),
        "rlimits": kinds,
        "filter": instructions,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "inodes": limits.inodes,
        "artifacts": limits.artifacts,
        "artifacts_bytes": limits.artifacts_bytes,
    }


def make_environment(spec: RunSpec) -> dict[str, str]:
    """Return the whole environment of a script."""
    environment = dict(ENVIRONMENT)
    if spec.runtime is Runtime.PYTHON:
        environment["PYTHONPATH"] = SKILL if spec.layer is None else f"{SKILL}:{DEPS}"
    if spec.layer is not None:
        environment["NODE_PATH"] = f"{DEPS}/node_modules"
    return environment
