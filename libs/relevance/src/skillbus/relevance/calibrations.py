"""How cosines of the models that we know become scores, unless their records say otherwise."""

from collections.abc import Mapping
from typing import Final

from skillbus.contracts.embedder.registry import Calibration

_FITTED: Final[Mapping[str, Calibration]] = {
    "all-MiniLM-L6-v2": Calibration(slope=0.590, lexical=1.790, offset=-1.204),
    "multilingual-e5-small": Calibration(slope=1.761, lexical=1.176, offset=0.616),
    "use-multilingual-v3": Calibration(slope=1.333, lexical=1.305, offset=0.108),
}
"""By benchmarks/fit_relevance.py on the dev tools, 2026-11-22; its results are in benchmarks/results."""


def calibration_of(model: str) -> Calibration | None:
    """The map fitted for a model of this name; None for one that nobody fitted."""
    return _FITTED.get(model)
