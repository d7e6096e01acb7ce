"""Every payload, in every sandbox that this machine offers."""

import pytest

from .harness import Harness
from .manifest import ABUSES, BY_NAME
from .model import Abuse

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("its_language"),
    pytest.mark.serial,
]
each = pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)


async def holds(harness: Harness, abuse: Abuse) -> None:
    if abuse.name in harness.held:
        return
    if abuse.behind is not None:
        await holds(harness, BY_NAME[abuse.behind])
    verdict = await harness.judge(abuse, abuse.limits, abuse.argv)
    assert not verdict.through, str(verdict)
    harness.held.add(abuse.name)


@pytest.mark.spec("tool-system.md § 5 沙箱隔离")
@each
async def test_it_is_held(abuse: Abuse, harness: Harness) -> None:
    if harness.way.network and abuse.offline:
        pytest.skip("it is about what a run with a network does have")
    await holds(harness, abuse)
