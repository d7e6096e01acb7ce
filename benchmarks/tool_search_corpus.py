"""Catalogues of any size for the benchmarks of search: real tools first, then the same in other words."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillbus.contracts.indexer.tools import IMPORTED_SOURCE, ToolType
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.relevance.tool_text import build_tool_lexical_text

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tools"
SEED = 7
_SWAPPED = 0.3
"""Share of a description's words that another tool's words stand for in a resampled tool."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What of a described tool a search needs."""

    id: str
    name: str
    description: str
    tool_type: str
    tags: tuple[str, ...]
    parameters: dict[str, object]

    @property
    def entry(self) -> ToolEntry:
        """As the indexer has it."""
        return ToolEntry(
            project=DEFAULT_PROJECT,
            tool_id=self.id,
            tool_type=ToolType(self.tool_type),
            name=self.name,
            description=self.description,
            source=IMPORTED_SOURCE,
            digest=hashlib.sha256(repr(self).encode()).hexdigest(),
            tags=self.tags,
            parameters=self.parameters,  # type: ignore[arg-type]
        )

    @property
    def build_tool_lexical_text(self) -> str:
        """All of its words."""
        return build_tool_lexical_text(self.name, self.description, self.tags, self.parameters)  # type: ignore[arg-type]


def corpus(folder: Path, count: int) -> list[Tool]:
    """`count` tools: of a smaller count, the first of them."""
    dice, real = random.Random(SEED), [_tool(line) for line in _lines(folder / "tools.jsonl")]
    dice.shuffle(real)
    copies = [_resampled(dice, real, number) for number in range(len(real), count)]
    return [*real, *copies][:count]


def requests(folder: Path) -> list[str]:
    """What people asked, in an order that is always the same."""
    found = sorted({str(line["query"])[:300] for line in _lines(folder / "queries.jsonl")})
    random.Random(SEED).shuffle(found)
    return found


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _tool(line: dict[str, object]) -> Tool:
    tags, parameters = line.get("tags"), line.get("parameters")
    return Tool(
        id=str(line["id"]),
        name=str(line["name"]),
        description=str(line["description"]),
        tool_type=str(line["tool_type"]),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        parameters=parameters if isinstance(parameters, dict) else {},
    )


def _resampled(dice: random.Random, real: Sequence[Tool], number: int) -> Tool:
    """A real tool with words of another one, in its name and its description: Chinese ones in pieces of two letters."""
    tool, other = real[number % len(real)], dice.choice(real)
    words, others = _words(tool.description), _words(other.description)
    for place in range(len(words)):
        if others and dice.random() < _SWAPPED:
            words[place] = dice.choice(others)
    between = " " if " " in tool.description.strip() else ""
    return Tool(
        id=f"{tool.id}~{number}",
        name=f"{tool.name}_{other.name.split('_')[0]}"[:200],
        description=between.join(words),
        tool_type=tool.tool_type,
        tags=tool.tags,
        parameters=tool.parameters,
    )


def _words(text: str) -> list[str]:
    return text.split() if " " in text.strip() else [text[at : at + 2] for at in range(0, len(text), 2)]
