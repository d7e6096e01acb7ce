"""What callers see of a sandbox whose engine an operator has chosen."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox import HEALTH
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS
from skillbus.sandbox.settings import SandboxSettings

from .conftest import OpenSandbox


async def test_an_engine_that_is_not_there_keeps_everything_from_running_and_says_why(
    open_one: OpenSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with open_one(engine="runsc") as sandbox:
        await sandbox.catalogue.put("say", "print('said')")
        with pytest.raises(RequestError, match="no program runsc") as caught:
            await sandbox.run("say")
        limits = await sandbox.bus.caller.call(GET_LIMITS, Empty())
        health = await sandbox.bus.caller.call(HEALTH, Empty())
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert limits.isolation is None
    assert "no program runsc" in limits.reason
    assert [check.ready for check in health.checks if check.name == "isolation"] == [False]


def test_bubblewrap_isolates_unless_an_operator_chooses_an_engine_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SKILLBUS_SANDBOX_ENGINE", raising=False)
    assert SandboxSettings().engine == "bubblewrap"
    monkeypatch.setenv("SKILLBUS_SANDBOX_ENGINE", "chroot")
    with pytest.raises(ValidationError):
        SandboxSettings()
