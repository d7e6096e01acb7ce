"""Time that a run has until its caller stops waiting."""

import time
from datetime import UTC, datetime
from typing import cast

import pytest

from skillbus.common.bus import headers
from skillbus.contracts.sandbox.skill_runs import RUN_SKILL, RunSkill
from skillbus.sandbox.domain.isolation import Isolation
from skillbus.sandbox.service import SandboxHandlers


class AskedError(Exception):
    """Ends a run that was asked for."""


class Runs:
    """Notes how long the caller of a run waits."""

    at_most_s = 0.0

    async def run(self, request: RunSkill, at_most_s: float, *, caller: str) -> None:
        self.at_most_s = at_most_s
        raise AskedError


@pytest.mark.parametrize("waits_s", [None, 20.0, 1_800.0])
async def test_a_run_may_take_until_its_caller_stops_waiting(waits_s: float | None) -> None:
    runs = Runs()
    handlers = SandboxHandlers(runs, runs, None, cast("Isolation", None), None, None, None, lambda: datetime.now(UTC))  # type: ignore[arg-type]
    token = headers.deadline.set(None if waits_s is None else time.time() + waits_s)
    try:
        with pytest.raises(AskedError):
            await handlers.run_skill(RunSkill(name="long"))
    finally:
        headers.deadline.reset(token)
    expected_s = RUN_SKILL.timeout_s if waits_s is None else waits_s
    assert runs.at_most_s == pytest.approx(expected_s - 3, abs=1)  # 3 s for the reply
