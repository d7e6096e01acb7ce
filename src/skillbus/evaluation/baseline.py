"""What words alone find: BM25 over the same texts, in this process."""

from collections.abc import Iterator

import numpy as np

from skillbus.calibration.bm25 import Bm25
from skillbus.evaluation.cases import Cases
from skillbus.evaluation.measures import DEPTH


def by_words(cases: Cases) -> Iterator[tuple[str, ...]]:
    """The best tools of each request, those that share a word with it; of equals the earlier."""
    index = Bm25(cases.lexical_texts)
    for case in cases.cases:
        scores = index.scores(case.query)
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        yield tuple(cases.tools[row].id for row in best.tolist() if scores[row] > 0)
