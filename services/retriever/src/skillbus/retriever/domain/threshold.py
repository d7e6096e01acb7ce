"""The score that the best hit must reach where a request names no threshold.

The best of many entries that do not fit scores higher than the best of few. What the best hit must reach therefore
grows with the number of entries searched. Of 20 requests that nothing fits, 85 % stay below these log-odds (12
catalogues of each size drawn from the dev tools; 2026-11-22):

    tools     5     10     25     50    100    300   1,000  3,000  5,511
    log-odds  -2.8  -2.6   -2.2   -1.7  -1.5   -.8   -.2    -.1    .1
"""

import math
from typing import Final

_MANY: Final = 1_500
"""From this number on more entries change nothing: the nearest one stays about as near."""
_GROWTH: Final = 0.5


def least_evidence(fits: float, entries: int) -> float:
    """Return the log-odds that the best of `entries` must reach. `fits` is the score among many, below 1."""
    if fits <= 0.0:
        return -math.inf
    among_many = math.log(fits / (1.0 - fits)) if fits < 1.0 else math.inf
    return among_many + _GROWTH * math.log(min(1.0, max(1, entries) / _MANY))
