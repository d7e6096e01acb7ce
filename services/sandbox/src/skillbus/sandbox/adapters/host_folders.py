"""Folders of the host that every user can enter."""

import stat
import tempfile
from pathlib import Path
from typing import Final

from skillbus.sandbox.domain.errors import SandboxBroken

_SHARED: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - the service makes a folder of its own in it


def is_open_to_all(path: Path) -> bool:
    """Return True if every user can enter the folders above `path` and read it."""
    real = path.resolve()
    readable = real.stat().st_mode & stat.S_IROTH
    entered = [real, *real.parents] if real.is_dir() else real.parents
    return bool(readable) and all(folder.stat().st_mode & stat.S_IXOTH for folder in entered)


def find_shared_folder() -> Path:
    """Return a folder for temporary files that every user can enter.

    Raises:
        SandboxBroken: There is none.
    """
    for folder in (Path(tempfile.gettempdir()), *_SHARED):
        if folder.is_dir() and is_open_to_all(folder):
            return folder
    raise SandboxBroken("there is no folder for temporary files that all users can enter: set TMPDIR to one")
