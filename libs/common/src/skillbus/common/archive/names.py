"""Rules for entry names: which are allowed, and which two name the same file."""

import re
import unicodedata
from dataclasses import dataclass, field

from skillbus.common.archive.errors import DuplicateEntryError, UnsafePathError
from skillbus.common.archive.limits import ArchiveLimits
from skillbus.common.characters import has_invisible

_DRIVE = re.compile(r"^[A-Za-z]:")
_DEVICE = re.compile(r"^(con|prn|aux|nul|conin\$|conout\$|clock\$|com[0-9¹²³]|lpt[0-9¹²³])$", re.IGNORECASE)
_JUNK_FOLDERS = frozenset({"__MACOSX"})
_JUNK_FILES = frozenset({".DS_Store"})


def normalize_path(name: str, limits: ArchiveLimits) -> str:
    """Return the path of an entry name without a leading `./` and without a folder's trailing slash.

    Raises:
        UnsafePathError: The path could leave the folder, or a common file system would change it.
    """
    _check_characters(name)
    path = name.removeprefix("./").removesuffix("/")
    if path in {"", "."} and name:
        return ""
    segments = path.split("/")
    for segment in segments:
        _check_segment(segment, name, limits)
    if len(segments) > limits.depth:
        raise UnsafePathError(f"the path is {len(segments)} deep; at most {limits.depth} are allowed", _shorten(name))
    if len(path.encode()) > limits.path_bytes:
        raise UnsafePathError(f"the path is longer than {limits.path_bytes} bytes", _shorten(name))
    return path


def is_junk(path: str) -> bool:
    """Return True for files and folders that macOS adds to archives."""
    segments = path.split("/")
    return segments[-1] in _JUNK_FILES or any(segment in _JUNK_FOLDERS for segment in segments)


def _shorten(name: str) -> str:
    """Return a name for a message: hostile names can be 64 KiB long."""
    return name if len(name) <= 200 else name[:200] + "…"


def _check_characters(name: str) -> None:
    if not name:
        raise UnsafePathError("an entry has an empty name")
    if has_invisible(name):
        raise UnsafePathError("the name holds control or invisible formatting characters", _shorten(name))
    if "\\" in name:
        raise UnsafePathError("the name holds a backslash; use forward slashes", _shorten(name))
    if name.startswith("/") or _DRIVE.match(name):
        raise UnsafePathError("the path is absolute; use paths inside the package", _shorten(name))
    if ":" in name:
        raise UnsafePathError("the name holds a colon, which opens a stream on Windows", _shorten(name))


def _check_segment(segment: str, name: str, limits: ArchiveLimits) -> None:
    folded = unicodedata.normalize("NFKC", segment)
    if segment in {"", ".", ".."} or folded in {"", ".", ".."} or "/" in folded or "\\" in folded:
        raise UnsafePathError("the path has an empty, `.` or `..` segment", _shorten(name))
    if segment[-1] in {".", " "} or segment[0] == " ":
        raise UnsafePathError("a part of the path begins with a space, or ends with a space or a dot", _shorten(name))
    if _DEVICE.match(folded.split(".", 1)[0].rstrip(" ")):
        raise UnsafePathError("a part of the path is a device's name on Windows", _shorten(name))
    if len(segment.encode()) > limits.segment_bytes:
        raise UnsafePathError(f"a part of the path is longer than {limits.segment_bytes} bytes", _shorten(name))


@dataclass(slots=True)
class NameSpace:
    """Names of one archive. Two names are the same if they are equal under NFKC and case folding."""

    _files: dict[str, str] = field(default_factory=dict)
    _folders: dict[str, str] = field(default_factory=dict)
    _declared: set[str] = field(default_factory=set)

    def add_path(self, path: str, *, is_folder: bool) -> None:
        """Add a path and its parents.

        Raises:
            DuplicateEntryError: Another entry already uses the path or a parent, or spells it differently.
        """
        segments = path.split("/")
        for end in range(1, len(segments)):
            self._add_folder("/".join(segments[:end]), path)
        if is_folder:
            if path in self._declared:
                raise DuplicateEntryError("the folder is listed twice", path)
            self._declared.add(path)
            self._add_folder(path, path)
            return
        key = _key(path)
        if key in self._files:
            raise DuplicateEntryError(f"the name is the same file as {self._files[key]!r}", path)
        if key in self._folders:
            raise DuplicateEntryError("the name is a file and a folder", path)
        self._files[key] = path

    def _add_folder(self, folder: str, path: str) -> None:
        key = _key(folder)
        if key in self._files:
            raise DuplicateEntryError(f"{self._files[key]!r} is a file and a folder", path)
        if self._folders.setdefault(key, folder) != folder:
            raise DuplicateEntryError(f"the folder is also spelt {self._folders[key]!r}", path)


def _key(path: str) -> str:
    # Folding can denormalise and normalising can unfold, so both are done twice (Unicode, D146).
    once = unicodedata.normalize("NFKC", path).casefold()
    return unicodedata.normalize("NFKC", once).casefold()
