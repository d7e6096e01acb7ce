"""Which launcher starts the next sandbox, with launchers and sandboxes that are not there."""

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from skillbus.sandbox.adapters.bubblewrap import starter as module
from skillbus.sandbox.adapters.bubblewrap.fork_server import ForkServer
from skillbus.sandbox.adapters.bubblewrap.launcher import Launcher
from skillbus.sandbox.adapters.bubblewrap.process import SandboxProcess
from skillbus.sandbox.adapters.bubblewrap.profile import SandboxPlan
from skillbus.sandbox.adapters.bubblewrap.starter import Helpers, ReadySandbox, SandboxProfile, SandboxStarter
from skillbus.sandbox.domain.errors import SandboxBroken
from skillbus.sandbox.domain.run.limits import Limits
from skillbus.sandbox.domain.run.spec import IsolationLevel


@pytest.fixture
def starter() -> SandboxStarter:
    metering = Mock(**{"create_meter.return_value": AsyncMock()})
    profile = SandboxProfile(build_command=lambda _: ())
    return SandboxStarter(installation=Mock(), profile=profile, metering=metering, user=None, start_s=20, forks=1)


async def test_a_sandbox_that_does_not_start_retires_its_own_launcher_only(starter: SandboxStarter) -> None:
    hanging = Mock(pid=0, attach=AsyncMock(side_effect=TimeoutError))
    first, second = Mock(spec=Launcher), Mock(spec=Launcher)
    starter._launcher = first
    with pytest.raises(SandboxBroken, match="did not start"):
        await starter._enter_agent(hanging, Mock(), Helpers(Mock(), first))
    assert [starter._launcher, *starter._former_launchers] == [None, first]
    starter._launcher = second
    with pytest.raises(SandboxBroken, match="did not start"):
        await starter._enter_agent(hanging, Mock(), Helpers(Mock(), first))
    assert [starter._launcher, *starter._former_launchers] == [second, first]


async def test_a_start_does_not_wait_for_ever_for_room_at_a_launcher_that_hangs(starter: SandboxStarter) -> None:
    def wait_for_ever(*_: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    starter._start_s, starter._filters = 0.01, {False: b""}
    starter._launcher = hanging = Mock(spec=Launcher, launch_program=wait_for_ever)
    plan = SandboxPlan(Mock(), IsolationLevel.FULL, Limits(), Path("/skill"), Path("/in"))
    with pytest.raises(SandboxBroken, match=r"did not start in 0\.01 s"):
        await starter._start_process(plan, hanging)
    assert [starter._launcher, *starter._former_launchers] == [None, hanging]


def test_a_launcher_that_has_ended_is_closed_at_once(starter: SandboxStarter, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Mock(is_running=Mock(return_value=False))
    started = Mock(is_running=Mock(return_value=True))
    monkeypatch.setattr(module, "Launcher", Mock(return_value=started))
    starter._launcher = ended
    assert starter._open_launcher() is started
    ended.close.assert_called_once_with()
    assert starter._former_launchers == []


@pytest.mark.parametrize(("launcher", "sandbox"), [(False, True), (True, False), (True, True)])
def test_a_sandbox_that_is_about_to_end_with_its_launcher_serves_no_run(launcher: bool, sandbox: bool) -> None:
    of_launcher = Mock(spec=Launcher, **{"is_running.return_value": launcher})
    process = Mock(spec=SandboxProcess, **{"is_running.return_value": sandbox})
    ready = ReadySandbox(process, (), Mock(), Mock(), Mock(), of_launcher, Mock())
    assert ready.is_running() == (launcher and sandbox)


@pytest.mark.parametrize("ends", ["launcher", "server"])
async def test_what_a_helper_did_not_start_because_it_ended_another_one_starts(
    ends: str, starter: SandboxStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Helpers(
        Mock(spec=ForkServer, **{"has_ended.return_value": ends == "server"}),
        Mock(spec=Launcher, **{"is_running.return_value": ends != "launcher"}),
    )
    there = Helpers(
        Mock(spec=ForkServer, **{"has_ended.return_value": False}),
        Mock(spec=Launcher, **{"is_running.return_value": True}),
    )
    tried = list[Helpers]()

    async def start_with(helpers: Helpers, *_: object) -> None:
        tried.append(helpers)
        raise SandboxBroken("it did not start")

    monkeypatch.setattr(starter, "_start_with", start_with)
    monkeypatch.setattr(starter, "_open_helpers", AsyncMock(side_effect=[ended, there, there]))
    monkeypatch.setattr(module, "RunFolder", Mock())
    for _ in range(2):  # the second time nothing has ended: it is not tried again
        with pytest.raises(SandboxBroken, match="it did not start"):
            await starter.start_sandbox(Mock(), Mock(), "default")
    assert tried == [ended, there, there]
