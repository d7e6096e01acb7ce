"""Saving of a run's artifacts. Their names come from the skill through the server, and neither is trusted."""

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

from skillbus.cli.errors import CliError, LocalFileError, StrangeReplyError
from skillbus.cli.output import CommandOutput, format_size
from skillbus.contracts.http import RunArtifact
from skillbus.contracts.sandbox.run_history import RunFile

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

_FORBIDDEN: Final = frozenset('\\:*?"<>|')
_NAME_BYTES_MAX: Final = 200
"""Leaves room for a number within the 255 bytes that file systems allow."""
_NUMBERED_NAMES: Final = 1000


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """File of a call, and the path on the server from which it is fetched."""

    name: str
    path: str


ArtifactT = TypeVar("ArtifactT", RunArtifact, RunFile, LinkedFile)


@dataclass(frozen=True, slots=True)
class SavedArtifacts:
    """Paths of the saved artifacts by name, and the errors of the others."""

    paths: dict[str, str]
    errors: list[CliError]


async def save_artifacts(
    output: CommandOutput, folder: Path, artifacts: Sequence[ArtifactT], fetch: Callable[[ArtifactT], Awaitable[bytes]]
) -> SavedArtifacts:
    """Save artifacts into a folder. One that fails does not stop the others."""
    saved = SavedArtifacts({}, [])
    for artifact in artifacts:
        try:
            content = await fetch(artifact)
            path = save_artifact(folder, artifact.name, content)
        except CliError as error:
            saved.errors.append(error)
            continue
        saved.paths[artifact.name] = str(path)
        output.print_note(f"saved {path} ({format_size(len(content))})")
    return saved


async def fetch_content(connection: "ApiConnection", artifact: RunArtifact) -> bytes:
    """Return the content of an artifact, from the reply or from its URL, checked against its digest."""
    if artifact.content is not None:
        content = artifact.content
    elif artifact.url:
        content = await connection.fetch_url(artifact.url)
    else:
        raise StrangeReplyError(f"the artifact {artifact.name!r} has neither content nor url")
    if hashlib.sha256(content).hexdigest() != artifact.sha256:
        raise StrangeReplyError(f"the artifact {artifact.name!r} arrived damaged", "Run the skill again.")
    return content


def save_artifact(folder: Path, name: str, content: bytes) -> Path:
    """Write an artifact into a folder under a free name, and return its path.

    Raises:
        LocalFileError: It cannot be written.
        StrangeReplyError: See `get_local_name`.
    """
    path = folder / get_local_name(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, file = _create_file(path)
        with file:
            file.write(content)
    except OSError as error:
        raise LocalFileError.from_os_error(path, error, "Give another folder.") from error
    return path


def get_local_name(name: str) -> str:
    """Return the base name to save an artifact under. A hidden name becomes visible.

    Raises:
        StrangeReplyError: The name is unsafe: absolute, with `..`, with control characters and so on.
    """
    segments = name.split("/")
    is_usable = all(segment.strip(". ") and segment.isprintable() for segment in segments)
    if not is_usable or _FORBIDDEN & set(name):
        raise StrangeReplyError(f"an artifact has the unsafe name {name!r}", "It was not saved. Check the skill.")
    base = PurePosixPath(name).name
    if base.startswith("."):
        base = f"_{base[1:]}"
    if len(base.encode(errors="replace")) > _NAME_BYTES_MAX:
        raise StrangeReplyError(f"the name of an artifact is too long: {name[:40]!r}…", "It was not saved.")
    return base


def _create_file(path: Path) -> tuple[Path, BinaryIO]:
    """Create a file under this name, or under one with a number. O_EXCL overwrites nothing and follows no link."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, _NUMBERED_NAMES + 1))
    for candidate in (path, *numbered):
        try:
            return candidate, os.fdopen(os.open(candidate, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
        except FileExistsError:
            continue
    raise LocalFileError(f"{path} and its numbered names are taken", "Give another folder.")
