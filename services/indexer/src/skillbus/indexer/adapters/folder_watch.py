"""Changes of the folders under `data/skills`, as the operating system tells them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from watchfiles import awatch

from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.adapters.disk_folders import DiskFolders

_QUIET_MS: Final = 300
"""A folder that is being copied is looked at when nothing has changed for this long."""
_AT_MOST_MS: Final = 3000


async def watch_folders(folders: DiskFolders, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
    """Sets of skill folders of the default project in which something changed, until `stop` is set.

    Folders of other projects are found by the reconciler.
    """
    root = folders.root_of(DEFAULT_PROJECT)
    async for changes in awatch(
        root, stop_event=stop, step=_QUIET_MS, debounce=_AT_MOST_MS, ignore_permission_denied=True
    ):
        changed = {_folder_of(Path(path), root) for _, path in changes}
        yield {folder for folder in changed if folder is not None}


def _folder_of(path: Path, root: Path) -> Path | None:
    parts = path.relative_to(root).parts
    return root / parts[0] if parts and not parts[0].startswith(".") else None
