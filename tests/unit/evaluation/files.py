"""Files of tools and requests."""

import json
from collections.abc import Sequence
from pathlib import Path

from skillbus.evaluation.cases import Cases, load_cases

TOOLS: list[object] = [
    {"id": "commit", "name": "git-commit", "description": "生成提交信息", "lang": "zh", "tool_type": "skill"},
    {"id": "rain", "name": "weather", "description": "Will it rain?", "lang": "en", "tool_type": "mcp"},
    {"id": "forecast", "name": "forecast", "description": "The weather of tomorrow", "lang": "en"},
    {"id": "song", "name": "play", "description": "Plays a song", "lang": "en"},
]


def lines_in(path: Path, lines: Sequence[object]) -> Path:
    """A file of JSON lines; text is written as it is."""
    written = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(written) + "\n", "utf-8")
    return path


def cases_of(folder: Path, requests: Sequence[object], tools: Sequence[object] = TOOLS) -> Cases:
    """The files as they are read."""
    return load_cases(lines_in(folder / "tools.jsonl", tools), lines_in(folder / "queries.jsonl", requests))
