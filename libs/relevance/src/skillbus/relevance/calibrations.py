"""Fitted maps from cosine to score for the models that skillbus ships. A model's own record takes precedence."""

from collections.abc import Mapping
from typing import Final

from skillbus.contracts.embedder.registry import Calibration

_FITTED: Final[Mapping[str, Calibration]] = {
    "all-MiniLM-L6-v2": Calibration(slope=0.590, lexical=1.790, offset=-1.204),
    "multilingual-e5-small": Calibration(slope=1.761, lexical=1.176, offset=0.616),
    "use-multilingual-v3": Calibration(slope=1.333, lexical=1.305, offset=0.108),
}
"""Fitted by benchmarks/fitting/fit_relevance.py on the dev tools, 2026-11-22; results are in benchmarks/results."""


def find_calibration(model: str) -> Calibration | None:
    """Return the map fitted for the model of this name, or None."""
    return _FITTED.get(model)
