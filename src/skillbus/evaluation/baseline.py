"""What words alone find: BM25 over the texts that search reads, in this process, without translations."""

from collections.abc import Iterator

import numpy as np

from skillbus.calibration.bm25 import Bm25
from skillbus.contracts.indexer.tools import ToolDescription
from skillbus.evaluation.cases import Cases
from skillbus.evaluation.measures import DEPTH
from skillbus.indexer.domain.catalogue.tool_text import aside_text, lexical_text


def by_words(cases: Cases) -> Iterator[tuple[str, ...]]:
    """The best tools of each request, those that share a word with it; of equals the earlier."""
    index = Bm25([_text(tool) for tool in cases.tools], [aside_text(it.provider, it.parameters) for it in cases.tools])
    for case in cases.cases:
        scores = index.scores(case.query)
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        yield tuple(cases.tools[row].id for row in best.tolist() if scores[row] > 0)


def _text(tool: ToolDescription) -> str:
    return lexical_text(tool.name, tool.description, tool.tags, tool.parameters, tool.examples)
