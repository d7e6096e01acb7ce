"""Judged tools and queries whose truth is known, and vectors to match."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skillbus.calibration.bm25 import Floats
from skillbus.calibration.judged import Judged, JudgedQuery, JudgedTool
from skillbus.calibration.vectors import JudgedVectors, build_vectors

DIMENSIONS = 24


def judged(tools: int, queries: int, *, words: float = 0.5, seed: int = 1) -> Judged:
    """Query i wants tool i modulo `tools`, and with the chance `words` says the word that only this tool has."""
    random = np.random.default_rng(seed)
    wanted = [row % tools for row in range(queries)]
    said = random.random(queries) < words
    asked = [f"please zword{tool}" if says else "please" for tool, says in zip(wanted, said.tolist(), strict=True)]
    return Judged(
        tools=tuple(JudgedTool(id=f"t{row}", name=f"zword{row}", description=f"zdoes{row}") for row in range(tools)),
        queries=tuple(
            JudgedQuery(query=text, relevant=(f"t{tool}",)) for text, tool in zip(asked, wanted, strict=True)
        ),
        relevant=tuple(frozenset({tool}) for tool in wanted),
    )


def vectors(of: Judged, *, signal: float, common: float = 0.0, seed: int = 2) -> JudgedVectors:
    """A query is its tool's vector times `signal` plus noise of length 1; `common` lies in all of them."""
    random = np.random.default_rng(seed)
    tools, noise = _unit(random, len(of.tools)), _unit(random, len(of.queries))
    wanted = [min(tools_of_one) for tools_of_one in of.relevant]
    queries = signal * tools[wanted] + noise
    shared = common * _unit(random, 1)
    return build_vectors(of, (tools + shared).astype(np.float32), (queries + shared).astype(np.float32))


def _unit(random: np.random.Generator, count: int) -> Floats:
    rows = random.normal(size=(count, DIMENSIONS))
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def write_lines(path: Path, lines: Sequence[object]) -> Path:
    """A file of JSON lines; text is written as it is."""
    written = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(written) + "\n", "utf-8")
    return path
