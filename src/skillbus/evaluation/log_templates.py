"""Accuracy of mined log templates, measured on logs with known templates.

Group accuracy (GA) is the share of lines whose group holds exactly the lines of their true template: Zhu et al.,
"Tools and Benchmarks for Automated Log Parsing" (ICSE-SEIP 2019). F1 of group accuracy (FGA) is the harmonic mean of
the shares of mined groups, and of true templates, that are right: Jiang et al., "A Large-Scale Evaluation for Log
Parsing Techniques" (ISSTA 2024), of loghub-2.0. Khan et al. (ICSE 2022) give guidelines for corrected templates.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillbus.calibration.errors import BadLineError, UnreadableFileError
from skillbus.learning.logs.records.reader import read_records
from skillbus.learning.logs.templates.miner import OTHER, LogMiner

_TRUTH: Final = "_structured_corrected.csv"


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """Accuracy of the groups of a log's lines."""

    ga: float
    fga: float


@dataclass(frozen=True, slots=True)
class LogReport:
    """Accuracy of the templates of each log of a folder."""

    sets: Mapping[str, GroupAccuracy]

    @property
    def macro(self) -> GroupAccuracy:
        """The mean of the logs."""
        values = self.sets.values()
        return GroupAccuracy(
            sum(it.ga for it in values) / len(values),
            sum(it.fga for it in values) / len(values),
        )

    def document(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return {
            "sets": {name: {"ga": it.ga, "fga": it.fga} for name, it in self.sets.items()},
            "macro": {"ga": self.macro.ga, "fga": self.macro.fga},
        }


def measure_log_folder(folder: Path) -> LogReport:
    """Mine the raw lines of each `*.log` that has its true templates beside it, and compare the groups.

    Raises:
        CalibrationError: a file cannot be read, or the folder has no log with its truth.
    """
    logs = [path for path in sorted(folder.glob("*.log")) if _truth_path(path) is not None]
    if not logs:
        raise UnreadableFileError(folder, f"no *.log in it has a *{_TRUTH} beside it")
    return LogReport({name_log(path): _measure_log(path) for path in logs})


def name_log(path: Path) -> str:
    """Return the name of a log: its file's name up to `_2k`, or else without suffix."""
    return path.stem.split("_2k", 1)[0]


def score_groups(truth: Sequence[str], found: Sequence[str]) -> GroupAccuracy:
    """Compare the groups of lines of equal length."""
    sizes, mined = Counter(truth), defaultdict[str, Counter[str]](Counter)
    for expected, template in zip(truth, found, strict=True):
        mined[template][expected] += 1
    right = [
        sum(expected.values())
        for expected in mined.values()
        if len(expected) == 1 and all(count == sizes[name] for name, count in expected.items())
    ]
    if not sizes:
        return GroupAccuracy(1.0, 1.0)
    return GroupAccuracy(sum(right) / len(truth), 2 * len(right) / (len(mined) + len(sizes)))


def group_lines(lines: Iterable[str]) -> list[str]:
    """Return the template of the record of each line; empty for lines before the first record."""
    miner = LogMiner()
    total, starts = 0, list[tuple[int, int]]()

    def count_lines() -> Iterable[str]:
        nonlocal total
        for line in lines:
            total += 1
            yield line

    for record in read_records(count_lines()):
        starts.append((record.line, miner.add_message(record.message)))
    templates = miner.build_templates()
    groups = [""] * total
    ends = [line for line, _ in [*starts, (total + 1, OTHER)]][1:]
    for (line, number), end in zip(starts, ends, strict=True):
        template = templates.get(miner.resolve_number(number), "")
        groups[line - 1 : end - 1] = [template] * (end - line)
    return groups


def _truth_path(log: Path) -> Path | None:
    """Return the file of the true templates: `NAME.log_structured_corrected.csv`, or the same without `.log`."""
    names = (log.name + _TRUTH, log.stem + _TRUTH)
    return next((path for name in names if (path := log.with_name(name)).is_file()), None)


def _measure_log(log: Path) -> GroupAccuracy:
    path = _truth_path(log)
    try:
        with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            groups = group_lines(lines)
        truth, found = list[str](), list[str]()
        with (path or log).open(encoding="utf-8", errors="replace", newline="") as rows:
            for number, row in enumerate(csv.DictReader(rows), 1):
                line, template = row.get("LineId") or str(number), row.get("EventTemplate") or row.get("EventId")
                if template is None or not line.isdigit() or not 0 < int(line) <= len(groups):
                    raise BadLineError(path or log, number + 1, f"no line {line} with EventTemplate or EventId")
                truth.append(template)
                found.append(groups[int(line) - 1])
    except (OSError, csv.Error) as error:
        raise UnreadableFileError(path or log, str(error)) from error
    return score_groups(truth, found)
