"""Extraction in a child process with limits on memory and CPU time.

The child prints one JSON object on each line: `{"progress": {…}}`, and last `{"result": {…}}`. What it prints to
standard error may quote the files, so it is not logged, apart from the name of its last exception.
"""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from pydantic import ValidationError

from skillbus.common.background import bind_to_parent
from skillbus.contracts.message import Message
from skillbus.learner.domain.learning.ports import ExtractionError, ExtractionResult
from skillbus.learning.job import ReadingProgress

EXTRACTION: Final = "skillbus.learning"
"""Package that the child runs as a program."""
_LIMITED: Final = """
import os, resource, runpy, sys
memory_bytes, cpu_s, package, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.nice(10)
sys.argv = [package, folder]
runpy.run_module(package, run_name="__main__", alter_sys=True)
"""
"""Program that limits itself and then runs the package."""
_LINE_BYTES: Final = 64 * 1024 * 1024
_IN_THREAD_BYTES: Final = 256 * 1024
_ERROR_BYTES: Final = 64 * 1024
_ERROR_NAME: Final = re.compile(rb"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::|$)")

log = structlog.get_logger(__name__)


class _Line(Message):
    progress: ReadingProgress | None = None
    result: ExtractionResult | None = None


@dataclass(frozen=True, slots=True)
class ChildExtractor:
    """Extractor that runs a package as a program. Cancelling it kills the program."""

    memory_bytes: int
    cpu_s: int
    package: str = EXTRACTION

    async def extract_items(self, folder: Path, on_progress: Callable[[ReadingProgress], None]) -> ExtractionResult:
        limits = (str(self.memory_bytes), str(self.cpu_s))
        command = (sys.executable, "-P", "-c", _LIMITED, *limits, self.package, str(folder))
        process = await asyncio.create_subprocess_exec(
            # The signal ends it when this process is killed.
            *bind_to_parent(command, os.environ, signal.SIGKILL),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LINE_BYTES,
            cwd=folder,
            start_new_session=True,
        )
        errors = asyncio.create_task(_read_last(process))
        try:
            result = await _read_result(process, on_progress)
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            last = await errors
        if result is not None and code == 0:
            return result
        raise ExtractionError(self._explain(code, last))

    def _explain(self, code: int, last: bytes) -> str:
        found = _ERROR_NAME.match(last)
        name = found[1].decode() if found else ""
        log.warning("extraction_failed", exit_code=code, error=name)
        if code in {-signal.SIGXCPU, -signal.SIGKILL}:
            return f"reading the files took more than {self.cpu_s} s of CPU time, or was killed: learn from fewer files"
        if name == "MemoryError":
            return (
                f"reading the files took more than {self.memory_bytes // 2**20} MiB of memory: learn from fewer files"
            )
        return f"reading the files failed (exit code {code}{f', {name}' if name else ''}): see the learner's log"


async def _read_result(process: Process, on_progress: Callable[[ReadingProgress], None]) -> ExtractionResult | None:
    """Return the result; None if the child ended without one. Raises ExtractionError."""
    if process.stdout is None:
        raise ExtractionError("the extraction has no output")
    result: ExtractionResult | None = None
    try:
        while text := await process.stdout.readline():
            is_large = len(text) > _IN_THREAD_BYTES
            line = (
                await asyncio.to_thread(_Line.model_validate_json, text)
                if is_large
                else _Line.model_validate_json(text)
            )
            if line.progress is not None:
                on_progress(line.progress)
            result = line.result or result
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ExtractionError(f"the extraction printed what is no result: {where}: {first['msg']}") from None
    except ValueError:  # of a line over the limit
        raise ExtractionError("the extraction found too much: learn from fewer files at once") from None
    return result


async def _read_last(process: Process) -> bytes:
    """Read what the child prints to standard error, and return the last line."""
    kept = b""
    if process.stderr is not None:
        while piece := await process.stderr.read(_ERROR_BYTES):
            kept = (kept + piece)[-_ERROR_BYTES:]
    return kept.rstrip().rpartition(b"\n")[2]
