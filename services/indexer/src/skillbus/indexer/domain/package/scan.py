"""What an operator should know of a package's files, read without running any of them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from skillbus.contracts.indexer.skill_record import NetworkCallSite, Runtime, SkillScan
from skillbus.indexer.domain.package.files import PackageFile, PackageFiles, Script, runtime_of
from skillbus.indexer.domain.package.network_scan import wishes_of_node, wishes_of_python, wishes_of_shell

_SHOWN: Final = 100


_WHAT_CHARACTERS: Final = 100


_SCRIPT_BYTES: Final = 256 * 1024


_ALL_SCRIPTS_BYTES: Final = 1024 * 1024
"""Read of one skill's scripts: three seconds' work at the worst. No public skill has half of it."""


_EXECUTABLE: Final = (
    b"\x7fELF",
    b"MZ",
    b"\0asm",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
"""First bytes of ELF, PE, WebAssembly, Mach-O (32 and 64 bits, either byte order) and universal binaries."""


def scan_of(files: PackageFiles, scripts: Sequence[Script]) -> SkillScan:
    """Look at all files of a skill; a scan takes at most some 100 KiB, for each list is cut.

    Raises:
        ArchiveError: A file is damaged.
    """
    every = sorted(files.by_path.values(), key=lambda file: file.path)
    look = _Look(files)
    return SkillScan(
        files=len(every),
        unpacked_bytes=sum(file.size_bytes for file in every),
        scripts=tuple(script.path for script in scripts[:_SHOWN]),
        executables=tuple(islice((file.path for file in every if _is_executable(files.read(file.path))), _SHOWN)),
        network=tuple(islice((wish for file in every for wish in look.into(file)), _SHOWN)),
        unread=tuple(look.unread[:_SHOWN]),
    )


class _Look:
    """A look into the scripts, which goes on until enough was read."""

    def __init__(self, files: PackageFiles) -> None:
        self._files = files
        self._left_bytes = _ALL_SCRIPTS_BYTES
        self.unread: list[str] = []

    def into(self, file: PackageFile) -> Iterator[NetworkCallSite]:
        """The wishes of a file; none of one that is no script."""
        runtime = runtime_of(file.path, self._files.read)
        if runtime is None:
            return
        if file.size_bytes > min(_SCRIPT_BYTES, self._left_bytes):
            self.unread.append(file.path)
            return
        self._left_bytes -= file.size_bytes
        told = dict.fromkeys(_wishes(runtime, self._files.read(file.path)))
        yield from (NetworkCallSite(file=file.path, line=line, what=what[:_WHAT_CHARACTERS]) for line, what in told)


def _wishes(runtime: Runtime, source: bytes) -> Iterator[tuple[int, str]]:
    if runtime is Runtime.PYTHON:
        return wishes_of_python(source)
    text = source.decode("utf-8", "replace")
    return wishes_of_node(text) if runtime is Runtime.NODE else wishes_of_shell(text)


def _is_executable(data: bytes) -> bool:
    # MZ alone begins many a text: a PE file tells at byte 60 where its header is.
    return data.startswith(_EXECUTABLE) and (data[:2] != b"MZ" or b"\0" in data[:64])
