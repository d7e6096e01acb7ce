"""Log templates: accuracy and CPU time of the miner beside drain3, on logs with known templates.

    uv run --isolated --with drain3 python benchmarks/log_templates.py --data DIR

drain3 pins old versions of its dependencies exactly, so it is in no group of this project. DIR has `*.log` beside
`*_structured_corrected.csv`, as loghub-2.0 (https://github.com/logpai/loghub-2.0, 2k_dataset). skillbus reads the raw
lines and finds their headers itself; drain3 gets the messages that the CSV cut out. Speed is measured on copies of each
log whose digits are drawn anew, so that no line is seen twice.
"""

import csv
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from measuring import BenchmarkParser, save_result

from skillbus.evaluation.log_templates import GroupAccuracy, group_lines, name_log, score_groups
from skillbus.learning.logs.learning import learn_from_log
from skillbus.learning.logs.records.reader import read_records
from skillbus.learning.logs.settings import LogSettings
from skillbus.learning.logs.templates.miner import LogMiner

_SEED: Final = 17
_MASKS: Final = (
    (r"((?<=[^A-Za-z0-9])|^)(([0-9a-f]{2,}:){3,}([0-9a-f]{2,}))((?=[^A-Za-z0-9])|$)", "ID"),
    (r"((?<=[^A-Za-z0-9])|^)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})((?=[^A-Za-z0-9])|$)", "IP"),
    (r"((?<=[^A-Za-z0-9])|^)([0-9a-f]{6,} ?){3,}((?=[^A-Za-z0-9])|$)", "SEQ"),
    (r"((?<=[^A-Za-z0-9])|^)([0-9A-F]{4} ?){4,}((?=[^A-Za-z0-9])|$)", "SEQ"),
    (r"((?<=[^A-Za-z0-9])|^)(0x[a-f0-9A-F]+)((?=[^A-Za-z0-9])|$)", "HEX"),
    (r"((?<=[^A-Za-z0-9])|^)([\-\+]?\d+)((?=[^A-Za-z0-9])|$)", "NUM"),
)
"""Masks of drain3's own example (drain3.ini)."""


def open_drain() -> Any:
    """Return a miner of drain3 with its example's masks, similarity 0.4 and depth 4."""
    from drain3 import TemplateMiner  # noqa: PLC0415 (only the benchmark of it needs it)
    from drain3.masking import MaskingInstruction  # noqa: PLC0415
    from drain3.template_miner_config import TemplateMinerConfig  # noqa: PLC0415

    config = TemplateMinerConfig()
    config.drain_sim_th, config.drain_depth = 0.4, 4
    config.masking_instructions = [MaskingInstruction(pattern, mask) for pattern, mask in _MASKS]
    return TemplateMiner(config=config)


def group_by_drain(messages: Sequence[str]) -> list[str]:
    """Return the cluster of each message."""
    miner = open_drain()
    return [str(miner.add_log_message(message)["cluster_id"]) for message in messages]


def mine_lines(lines: Sequence[str]) -> None:
    """Mine raw lines: header, mask, template."""
    miner = LogMiner()
    for record in read_records(lines):
        miner.add_message(record.message)
    miner.build_templates()


def vary_digits(lines: Sequence[str], copies: int) -> list[str]:
    """Return copies of lines. Digits outside of the first 30 characters, which hold the time, are drawn anew."""
    draw = random.Random(_SEED)
    digit = re.compile(r"\d+")
    return [
        line[:30] + digit.sub(lambda found: str(draw.randrange(10 ** min(len(found[0]), 18))), line[30:])
        for _ in range(copies)
        for line in lines
    ]


def measure_speed(run: Callable[[Sequence[str]], object], lines: Sequence[str]) -> float:
    """Return lines for each second of CPU time."""
    started = time.process_time()
    run(lines)
    return len(lines) / (time.process_time() - started)


def describe(score: GroupAccuracy, speeds: Sequence[float]) -> dict[str, float | list[float]]:
    """Return a score, and the speed of each turn in thousands of lines a second."""
    return {
        "ga": round(score.ga, 4),
        "fga": round(score.fga, 4),
        "klines_per_cpu_s": [round(it / 1000, 1) for it in speeds],
    }


def main() -> None:
    parser = BenchmarkParser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of logs with their true templates")
    parser.add_argument("--copies", type=int, default=15, help="copies of each log for the speed (%(default)s)")
    parser.add_argument("--turns", type=int, default=2, help="turns of each, one after the other (%(default)s)")
    arguments = parser.read_arguments()
    sets: dict[str, object] = {}
    for log in sorted(arguments.data.glob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        with log.with_name(log.name + "_structured_corrected.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        truth, messages = [row["EventTemplate"] for row in rows], [row["Content"] for row in rows]
        many, many_messages = vary_digits(lines[: len(rows)], arguments.copies), vary_digits(messages, arguments.copies)
        ours, learned, drained = list[float](), list[float](), list[float]()
        for _ in range(arguments.turns):
            ours.append(measure_speed(mine_lines, many))
            drained.append(measure_speed(group_by_drain, many_messages))
            learned.append(measure_speed(lambda it: learn_from_log("log", it, LogSettings()), many))
        sets[name_log(log)] = {
            "skillbus": describe(score_groups(truth, group_lines(lines)[: len(rows)]), ours),
            "skillbus_items_too": [round(it / 1000, 1) for it in learned],
            "drain3": describe(score_groups(truth, group_by_drain(messages)), drained),
        }
        print(json.dumps({name_log(log): sets[name_log(log)]}))
    save_result("log_templates", {"seed": _SEED, "copies": arguments.copies, "sets": sets}, arguments.out)


if __name__ == "__main__":
    main()
