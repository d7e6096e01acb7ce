"""Catalogues of any size: given tools first, then the same in other words. And requests for comparisons of searches."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from generator import SEED, read_tools
from numpy.typing import NDArray

from skillbus.contracts.indexer.tools import IMPORTED_SOURCE, ToolType
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.indexer.domain.catalogue.entry import ToolEntry
from skillbus.relevance.tool_text import build_tool_lexical_text

LIMIT: Final = 10
"""Tools of an answer."""
TYPE: Final = ToolType.MCP
"""Type of the tools that are asked for."""
COLUMNS: Final = ["id", "name", "description", "tool_type", "tags"]
"""What an answer says of a tool."""
_SWAPPED = 0.3
"""Share of a description's words that another tool's words stand for in a resampled tool."""


@dataclass(frozen=True, slots=True)
class CatalogueTool:
    """A tool with everything that both sides index."""

    id: str
    name: str
    description: str
    tool_type: str
    tags: tuple[str, ...]
    parameters: dict[str, object]

    @property
    def entry(self) -> ToolEntry:
        """The tool as the indexer reads it from the catalogue."""
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
    def lexical_text(self) -> str:
        """Text for the sparse side."""
        return build_tool_lexical_text(self.name, self.description, self.tags, self.parameters)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A request with its vectors, for the sides that cannot embed."""

    text: str
    vector: NDArray[np.float32]
    """Shape (dim,), of length 1."""
    term_indices: Sequence[int]
    term_values: Sequence[float]


def make_catalogue(file: str | None, count: int) -> list[CatalogueTool]:
    """Return `count` tools: those of an NDJSON file, then the same in other words; or generated ones."""
    dice, given = random.Random(SEED), [_tool(line) for line in read_tools(file, count)]
    dice.shuffle(given)
    copies = [_resampled(dice, given, number) for number in range(len(given), count)]
    return [*given, *copies][:count]


def _tool(line: dict[str, object]) -> CatalogueTool:
    tags, parameters = line.get("tags"), line.get("parameters")
    return CatalogueTool(
        id=str(line["id"]),
        name=str(line["name"]),
        description=str(line["description"]),
        tool_type=str(line["tool_type"]),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        parameters=parameters if isinstance(parameters, dict) else {},
    )


def _resampled(dice: random.Random, real: Sequence[CatalogueTool], number: int) -> CatalogueTool:
    """A real tool with words of another one, in its name and its description: Chinese ones in pieces of two letters."""
    tool, other = real[number % len(real)], dice.choice(real)
    words, others = _words(tool.description), _words(other.description)
    for place in range(len(words)):
        if others and dice.random() < _SWAPPED:
            words[place] = dice.choice(others)
    between = " " if " " in tool.description.strip() else ""
    return CatalogueTool(
        id=f"{tool.id}~{number}",
        name=f"{tool.name}_{other.name.split('_')[0]}"[:200],
        description=between.join(words),
        tool_type=tool.tool_type,
        tags=tool.tags,
        parameters=tool.parameters,
    )


def _words(text: str) -> list[str]:
    return text.split() if " " in text.strip() else [text[at : at + 2] for at in range(0, len(text), 2)]
