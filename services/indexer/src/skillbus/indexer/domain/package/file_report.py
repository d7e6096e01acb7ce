"""Report on a package's files for an operator, made without running any of them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from skillbus.contracts.indexer.skill_record import NetworkCallSite, Runtime, SkillScan
from skillbus.indexer.domain.package.files import PackageFile, PackageFiles, Script, detect_runtime
from skillbus.indexer.domain.package.network_scan import scan_javascript, scan_python, scan_shell

_SHOWN: Final = 100
_WHAT_CHARACTERS: Final = 100
_SCRIPT_BYTES: Final = 256 * 1024
_ALL_SCRIPTS_BYTES: Final = 1024 * 1024
"""Script source scanned for one skill: at most three seconds. No public skill has half of it."""
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


def scan_package(files: PackageFiles, scripts: Sequence[Script]) -> SkillScan:
    """Scan all files of a skill. The report has at most some 100 KiB, because each list is cut.

    Raises:
        ArchiveError: A file is damaged.
    """
    every = sorted(files.by_path.values(), key=lambda file: file.path)
    scanner = _NetworkScanner(files)
    return SkillScan(
        files=len(every),
        unpacked_bytes=sum(file.size_bytes for file in every),
        scripts=tuple(script.path for script in scripts[:_SHOWN]),
        executables=tuple(islice((file.path for file in every if _is_executable(files.read(file.path))), _SHOWN)),
        network=tuple(islice((wish for file in every for wish in scanner.scan_file(file)), _SHOWN)),
        unread=tuple(scanner.unread[:_SHOWN]),
    )


class _NetworkScanner:
    """Scans scripts until the budget of bytes is used up."""

    def __init__(self, files: PackageFiles) -> None:
        self._files = files
        self._left_bytes = _ALL_SCRIPTS_BYTES
        self.unread: list[str] = []

    def scan_file(self, file: PackageFile) -> Iterator[NetworkCallSite]:
        """Yield the uses of the network in a file. A file that is not a script has none."""
        runtime = detect_runtime(file.path, self._files.read)
        if runtime is None:
            return
        if file.size_bytes > min(_SCRIPT_BYTES, self._left_bytes):
            self.unread.append(file.path)
            return
        self._left_bytes -= file.size_bytes
        source = self._files.read(file.path)
        if runtime is Runtime.PYTHON:
            uses = scan_python(source)
        else:
            text = source.decode("utf-8", "replace")
            uses = scan_javascript(text) if runtime is Runtime.NODE else scan_shell(text)
        for line, what in dict.fromkeys(uses):
            yield NetworkCallSite(file=file.path, line=line, what=what[:_WHAT_CHARACTERS])


def _is_executable(data: bytes) -> bool:
    # A text may begin with MZ: a PE file has NUL bytes among its first 64.
    return data.startswith(_EXECUTABLE) and (data[:2] != b"MZ" or b"\0" in data[:64])
