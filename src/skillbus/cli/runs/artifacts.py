"""Saving what a run gives back. Names come from the skill, by way of the server: neither is trusted."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from skillbus.cli.client.replies import RunArtifact
from skillbus.cli.client.skills import Client
from skillbus.cli.errors import LocalFileError, StrangeReplyError

_FORBIDDEN = frozenset('\\:*?"<>|')
_NAME_BYTES_MAX = 200
"""Leaves room for a number within the 255 bytes that file systems allow."""
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class SavedArtifact:
    """An artifact and where it is now."""

    name: str
    path: Path
    size_bytes: int


def local_name(name: str) -> str:
    """The plain base name to save an artifact by; a hidden one becomes visible.

    Raises:
        StrangeReplyError: the name is hostile: absolute, with `..`, control characters or the like.
    """
    segments = name.split("/")
    usable = all(segment.strip(". ") and segment.isprintable() for segment in segments)
    if not usable or _FORBIDDEN & set(name):
        raise StrangeReplyError(f"an artifact has the unsafe name {name!r}", "It was not saved; look at the skill.")
    base = PurePosixPath(name).name
    if base.startswith("."):
        base = f"_{base[1:]}"
    if len(base.encode(errors="replace")) > _NAME_BYTES_MAX:
        raise StrangeReplyError(f"an artifact's name is too long: {name[:40]!r}…", "It was not saved.")
    return base


async def content_of(client: Client, artifact: RunArtifact) -> bytes:
    """The bytes, from the reply or from where it says; checked against their digest."""
    if artifact.content is not None:
        content = artifact.content
    elif artifact.url:
        content = await client.fetch(artifact.url)
    else:
        raise StrangeReplyError(f"the artifact {artifact.name!r} comes without content and without url")
    if hashlib.sha256(content).hexdigest() != artifact.sha256:
        raise StrangeReplyError(f"the artifact {artifact.name!r} arrived damaged", "Run it again.")
    return content


def save(folder: Path, artifact: str, content: bytes) -> SavedArtifact:
    """Write an artifact, by its name, into a folder, beside what is there: a name that is taken gets a number.

    Raises:
        LocalFileError: it cannot be written.
        StrangeReplyError: see `local_name`.
    """
    name = local_name(artifact)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path, file = _created(folder, name)
        with file:
            file.write(content)
    except OSError as error:
        raise LocalFileError(f"{folder / name}: {error.strerror or error}", "Name another folder.") from error
    return SavedArtifact(artifact, path, len(content))


def _created(folder: Path, name: str) -> tuple[Path, BinaryIO]:
    """A new file; made exclusively, so that nothing is overwritten and no link is followed."""
    for candidate in _candidates(name):
        path = folder / candidate
        try:
            return path, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
        except FileExistsError:
            continue
    raise LocalFileError(f"{folder / name} and its numbered names are taken", "Name another folder.")


def _candidates(name: str) -> Iterator[str]:
    yield name
    path = PurePosixPath(name)
    for number in count(1):
        if number > _TRIES:
            return
        yield f"{path.stem}-{number}{path.suffix}"
