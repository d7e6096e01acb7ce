"""Extracts what the files of a job show: `python -m skillbus.learning FOLDER`.

The folder holds `job.json`, an `ExtractionJob`. Each line of the output is a JSON object: `{"progress": …}` at most
four times a second, and `{"result": …}` at last.
"""

import json
import sys
from pathlib import Path
from time import monotonic
from typing import Final

from pydantic import TypeAdapter

from skillbus.contracts.message import Message
from skillbus.learning.extraction import extract
from skillbus.learning.job import ExtractionJob, ReadingProgress
from skillbus.learning.test_runs.values import TestRun

_REPORT_EVERY_S: Final = 0.25


class _ProgressPrinter:
    def __init__(self) -> None:
        self._printed_at = 0.0

    def print_progress(self, progress: ReadingProgress) -> None:
        now = monotonic()
        if now - self._printed_at >= _REPORT_EVERY_S:
            self._printed_at = now
            _print_line("progress", progress)


def _print_line(name: str, value: Message) -> None:
    sys.stdout.write(json.dumps({name: value.model_dump(mode="json")}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the job's folder from the command line, extract, and print the result."""
    folder = Path(sys.argv[1])
    job = ExtractionJob.model_validate_json((folder / "job.json").read_bytes())
    history: tuple[TestRun, ...] = ()
    if job.history is not None:
        history = TypeAdapter(tuple[TestRun, ...]).validate_json(Path(job.history).read_bytes())
    _print_line("result", extract(job, history, _ProgressPrinter().print_progress))


if __name__ == "__main__":
    main()
