"""What callers see of a sandbox that isolates nothing, and of one whose cgroup cannot be had."""

from pathlib import Path

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.message import Empty
from skillbus.contracts.sandbox import HEALTH
from skillbus.contracts.sandbox.skill_runs import GET_LIMITS
from skillbus.sandbox.settings import SandboxSettings

from .conftest import OpenSandbox


def test_it_takes_that_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLBUS_SANDBOX_UNSAFE", raising=False)
    assert not SandboxSettings().unsafe
    monkeypatch.setenv("SKILLBUS_SANDBOX_UNSAFE", "1")
    assert SandboxSettings().unsafe


async def test_without_isolation_every_answer_says_so(open_one: OpenSandbox) -> None:
    async with open_one(unsafe=True) as sandbox:
        await sandbox.catalogue.put("say", "print('said')")
        ran = await sandbox.run("say")
        limits = await sandbox.bus.caller.call(GET_LIMITS, Empty())
        health = await sandbox.bus.caller.call(HEALTH, Empty())
        assert await sandbox.text_of(ran) == "said\n"
    assert (ran.isolation, limits.isolation) == ("none", "none")
    assert "NOT isolated" in limits.reason
    assert next(check.detail for check in health.checks if check.name == "isolation").startswith("none")


async def test_a_cgroup_that_was_asked_for_and_cannot_be_had_keeps_everything_from_running(
    open_one: OpenSandbox, tmp_path: Path
) -> None:
    async with open_one(cgroup=str(tmp_path)) as sandbox:
        await sandbox.catalogue.put("say", "print('said')")
        with pytest.raises(RequestError, match="SKILLBUS_SANDBOX_CGROUP") as caught:
            await sandbox.run("say")
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
