"""Empty repository of ours that receives one commit of another one. All work is done by the user's `git`, in bounds."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from skillbus.cli.errors import GitError
from skillbus.cli.output import format_size

SCHEMES: Final = frozenset({"file", "http", "https", "ssh"})
FETCH_BYTES: Final = 256 * 1024 * 1024
"""Largest download of a commit."""
_FETCH_S: Final = 120.0
_ENTRIES: Final = 100_000
"""Most files of a tree."""
_LINE_BYTES: Final = 64 * 1024
_BLOCK_BYTES: Final = 512
"""Unit of `ulimit -f`."""
_NOT_FOUND_CODE: Final = 127
"""Exit code of the shell for a program that is not installed."""
_OTHER_REPOSITORY: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Variables of the repository that the caller stands in, such as a git hook has."""
_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": ":".join(sorted(SCHEMES)),
    "GIT_ASKPASS": "",
    "GIT_DIR": ".",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""git asks for no password: it uses keys and the user's credential helpers, or fails."""
_OPTIONS: Final = ("core.hooksPath=/dev/null", "fetch.unpackLimit=1", "gc.auto=0", "maintenance.auto=false")
_TOO_LARGE: Final = "File too large"
_NO_COMMIT: Final = ("not our ref", "no such remote ref", "couldn't find remote ref")
_NO_ACCESS: Final = ("could not read Username", "Authentication failed", "Permission denied (")
_NO_TREE: Final = ("Not a valid object name", "not a tree object")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """File, link or submodule of a commit."""

    mode: str
    digest: str
    size_bytes: int
    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class GitRepository:
    """Bare repository in a folder of ours, without a working tree."""

    place: Path
    environment: Mapping[str, str] = field(default_factory=lambda: _build_environment(os.environ))

    async def fetch_commit(self, url: str, commit: str) -> None:
        """Fetch one commit without its history, tags and submodules.

        Raises:
            GitError: The repository is not there, does not have the commit, or is too large or too slow.
        """
        await self._run("init", "--quiet", "--bare", "--template=", ".")
        await self._run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", url, commit)
        if (kind := (await self._run("cat-file", "-t", commit)).strip()) != "commit":
            raise GitError(f"{commit} is a {kind}", "Give the digest of a commit.")

    async def list_files(self, tree: str) -> list[TreeEntry]:
        """Return the files of a tree at any depth.

        Raises:
            GitError: There is no such tree, or it has too many files.
        """
        entries: list[TreeEntry] = []
        async with self._start("ls-tree", "-r", "-l", "-z", "--full-tree", tree) as (_, output):
            while line := await _read_until_null(output):
                facts, _, name = line.partition(b"\t")
                mode, _, digest, size = facts.decode("ascii").split()
                path = os.fsdecode(name)
                if not is_plain_path(path):
                    raise GitError(f"the commit contains the path {path!a}", "Repair the repository.")
                entries.append(TreeEntry(mode, digest, 0 if size == "-" else int(size), PurePosixPath(path)))
                if len(entries) > _ENTRIES:
                    advice = "Name the folder of the skills behind a #."
                    raise GitError(f"the commit has more than {_ENTRIES} files", advice)
        return entries

    async def read_files(self, entries: Sequence[TreeEntry]) -> AsyncIterator[tuple[TreeEntry, bytes]]:
        """Yield each file with its content as it was committed. No filter is applied."""
        async with self._start("cat-file", "--batch") as (process, output):
            if process.stdin is None:
                raise TypeError("git has no standard input")
            for entry in entries:
                process.stdin.write(f"{entry.digest}\n".encode())
                await process.stdin.drain()
                if b" blob " not in await output.readuntil(b"\n"):
                    raise GitError(f"git cannot read {entry.path}", "Try again.")
                yield entry, (await output.readexactly(entry.size_bytes + 1))[:-1]
            process.stdin.close()

    async def _run(self, *words: str) -> str:
        async with self._start(*words) as (_, output):
            return (await output.read(_LINE_BYTES)).decode("utf-8", errors="replace")

    @asynccontextmanager
    async def _start(self, *words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader]]:
        """Start git; it has ended when the context is left.

        Raises:
            GitError: It is not installed, fails, or takes too long.
        """
        options = [word for option in _OPTIONS for word in ("-c", option)]
        # Without the signal, git says why it fails.
        limit = ("sh", "-c", 'trap "" XFSZ && ulimit -f "$0" && exec "$@"', str(FETCH_BYTES // _BLOCK_BYTES))
        with (self.place / "errors").open("w+b") as errors:
            process = await asyncio.create_subprocess_exec(
                *(*limit, "git", *options, *words),
                cwd=self.place,
                env=self.environment,
                stdin=asyncio.subprocess.PIPE if "--batch" in words else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LINE_BYTES,
                start_new_session=True,  # without a terminal, ssh cannot ask either
            )
            if process.stdout is None:
                raise TypeError("git has no standard output")
            try:
                async with asyncio.timeout(_FETCH_S):
                    with suppress(asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
                        yield process, process.stdout
                    code = await process.wait()
            except TimeoutError:
                advice = "Try again, or clone it yourself and install the folder."
                raise GitError(f"git took longer than {_FETCH_S:g} s", advice) from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            if code != 0:
                errors.seek(0)
                raise _explain_failure(code, errors.read(_LINE_BYTES).decode("utf-8", errors="replace"))


def is_plain_path(path: str) -> bool:
    """Return True for a relative path that stays below its folder."""
    return not {"", ".", ".."} & set(path.split("/"))


def _build_environment(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in _OTHER_REPOSITORY} | _ENVIRONMENT


async def _read_until_null(output: asyncio.StreamReader) -> bytes:
    """Return the text before the next NUL; nothing at the end."""
    try:
        return (await output.readuntil(b"\0"))[:-1]
    except asyncio.IncompleteReadError:
        return b""
    except asyncio.LimitOverrunError:
        raise GitError("the commit contains a path that is too long", "Repair the repository.") from None


def _explain_failure(code: int, errors: str) -> GitError:
    """Return the error for the exit code of git and its text on standard error."""

    def contains(texts: Sequence[str]) -> bool:
        return any(text in errors for text in texts)

    if code == _NOT_FOUND_CODE:
        return GitError("git is not installed", "Install it (Debian: apt-get install git), or give a folder.")
    if _TOO_LARGE in errors:
        size, advice = format_size(FETCH_BYTES), "Clone it yourself and install the folder."
        return GitError(f"the commit is larger than {size}", advice)
    if contains(_NO_COMMIT):
        return GitError("the repository does not have this commit", "Check the commit and the address.")
    if contains(_NO_ACCESS):
        advice = "Check the address; for a private one, let your credential helper or ssh-agent know the key."
        return GitError("the repository does not exist, or it is private", advice)
    if contains(_NO_TREE):
        return GitError("the commit does not have this folder", "Check the folder behind the #.")
    prefixes = ("fatal: ", "error: ", "ssh: ")
    messages = [line.partition(": ")[2] for line in errors.splitlines() if line.startswith(prefixes)]
    said = messages[0] if messages else f"git ended with code {code}"
    return GitError(said, "Check the address. git fetches it with your own settings.")
