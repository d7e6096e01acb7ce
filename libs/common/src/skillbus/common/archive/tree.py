"""Writer of new files below one folder. It works relative to open descriptors and never follows a link."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileTree:
    """A folder that is being filled. Paths are relative, with forward slashes, and already checked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._created: set[str] = set()
        self._root = -1

    def __enter__(self) -> Self:
        self._root = os.open(self._directory, _FOLDER_FLAGS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def add_folder(self, path: str) -> None:
        """Create a folder and its parents with mode 0755."""
        with ExitStack() as stack:
            self._open_folder(path.split("/") if path else [], stack)

    def add_file(self, path: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Write a new file with mode 0644 or 0755, independent of the umask. Parents are created."""
        *parents, name = path.split("/")
        with ExitStack() as stack:
            folder = self._open_folder(parents, stack)
            with os.fdopen(os.open(name, _FILE_FLAGS, 0o600, dir_fd=folder), "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def _open_folder(self, segments: list[str], stack: ExitStack) -> int:
        """Return a descriptor of the folder, created on first use. `stack` closes it."""
        folder, path = self._root, ""
        for segment in segments:
            path = f"{path}/{segment}"
            is_new = path not in self._created
            if is_new:
                os.mkdir(segment, 0o755, dir_fd=folder)
            folder = os.open(segment, _FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, folder)
            if is_new:
                os.fchmod(folder, 0o755)
                self._created.add(path)
        return folder
