"""Every payload, once, in a sandbox that was weakened for it: what gets through nowhere shows nothing."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from skillbus.sandbox.domain.run.spec import IsolationLevel

from .canaries import Planted
from .harness import USER, Harness, Way, opened, weakened
from .manifest import ABUSES, BY_NAME
from .model import Abuse, Step
from .weakening import UNFILTERED, Weakened, without

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.serial]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(strongest: IsolationLevel, canaries: Planted) -> AsyncIterator[Harness]:
    """A sandbox with all its walls, for cases that are let through by other limits or arguments."""
    async with opened(Way(strongest), canaries) as made:
        yield made


@pytest.mark.usefixtures("its_language")
@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)
async def test_weakened_it_gets_through(
    abuse: Abuse, strongest: IsolationLevel, canaries: Planted, whole: Harness
) -> None:
    weakening = abuse.weakening
    if (why := weakening.absent()) is not None:
        pytest.skip(why)
    harness = weakened(abuse, strongest, canaries) if weakening.steps else whole
    try:
        verdict = await harness.judge(abuse, weakening.limits or abuse.limits, weakening.argv or abuse.argv)
    finally:
        harness.clean()
    assert set(weakening.shows) <= verdict.through, str(verdict)


@pytest.mark.parametrize("gone", [(without("--unshare-net"),), UNFILTERED], ids=["namespace", "filter"])
async def test_of_two_walls_around_the_network_either_holds_alone(
    gone: tuple[Step, ...], strongest: IsolationLevel, canaries: Planted
) -> None:
    harness = Harness(Weakened(strongest, gone, canaries, USER), canaries, Way(strongest))
    abuse = BY_NAME["network_loopback.py"]
    verdict = await harness.judge(abuse, abuse.limits, abuse.argv)
    reached = {what for what in verdict.through if what.startswith("connected") or what.endswith("was heard")}
    assert not reached, str(verdict)
