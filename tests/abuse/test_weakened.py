"""Every payload, once, in a sandbox that was weakened for it: what gets through nowhere shows nothing."""

import pytest

from skillbus.sandbox.domain.run import Level

from .canaries import Planted
from .harness import weakened
from .manifest import ABUSES
from .model import Abuse

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("its_language")]


@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)
async def test_weakened_it_gets_through(abuse: Abuse, strongest: Level, canaries: Planted) -> None:
    weakening = abuse.weakening
    if (why := weakening.absent()) is not None:
        pytest.skip(why)
    harness = weakened(abuse, strongest, canaries)
    try:
        verdict = await harness.judge(abuse, weakening.limits or abuse.limits, weakening.argv or abuse.argv)
    finally:
        harness.clean()
    assert set(weakening.shows) <= verdict.through, str(verdict)
