"""How cosines of the models that we know become scores, unless their records say otherwise."""

from collections.abc import Mapping
from typing import Final

from skillbus.contracts.registry import Calibration

_FITTED: Final[Mapping[str, Calibration]] = {
    "use-multilingual-v3": Calibration(slope=1.496, lexical=1.156, offset=0.678),
}
"""By benchmarks/fit_relevance.py on the dev tools, 2026-11-21; its results are in benchmarks/results."""


def calibration_of(model: str) -> Calibration | None:
    """The map fitted for a model of this name; None for one that nobody fitted."""
    return _FITTED.get(model)
