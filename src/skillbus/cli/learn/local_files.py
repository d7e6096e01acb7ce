"""Files and folders that a command names, as the files of a job."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import typer

from skillbus.cli.errors import LocalFileError
from skillbus.contracts.learner.learning_jobs import MAX_FILES

_NAME_CHARACTERS: Final = 300


def collect_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the files by their names in the job: paths below the parent of what was named.

    Of a folder, hidden entries, links and empty files are left out.

    Raises:
        LocalFileError: A path does not exist, or there is no file.
        typer.BadParameter: There are more files than a job takes.
    """
    found: dict[str, Path] = {}
    for path in paths:
        try:
            for file in _list_files(path):
                name = _shorten(file.relative_to(path.parent).as_posix())
                found[name if name not in found else _shorten(file.absolute().as_posix())] = file
        except OSError as error:
            raise LocalFileError.from_os_error(path, error) from error
    if not found:
        raise LocalFileError(f"{', '.join(map(str, paths))}: there is no file to learn from", "Name files or folders.")
    if len(found) > MAX_FILES:
        raise typer.BadParameter(
            f"{len(found)} files are more than the {MAX_FILES} of one job: name fewer, or a zip of them",
            param_hint="PATH",
        )
    return found


def _list_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        path.stat()
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file() and not file.is_symlink() and file.stat().st_size:
                yield file


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"…{name[1 - _NAME_CHARACTERS :]}"
