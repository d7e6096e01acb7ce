"""The mount namespace from which a service that is root starts its sandboxes."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.few_mounts import FewMounts, FewMountsError
from skillbus.sandbox.adapters.bubblewrap.installation import Installation, find_installation
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.bubblewrap.profile import Plan, command_line
from skillbus.sandbox.adapters.bubblewrap.starter import Profile
from skillbus.sandbox.domain.run.spec import RunSpec, runtime_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")


@pytest.fixture
def host() -> Installation:
    return find_installation()


@pytest.fixture
def mounts(host: Installation, tmp_path: Path) -> Iterator[FewMounts]:
    opened = FewMounts.open(host, tmp_path)
    yield opened
    opened.close()


def said_inside(host: Installation, mounts: FewMounts, *command: str) -> str:
    argv = (str(host.nsenter), f"--mount={mounts.path}", "--setuid", "64001", "--setgid", "64001", "--", *command)
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_it_has_what_sandboxes_need_and_the_machine_keeps_what_it_had(host: Installation, mounts: FewMounts) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    points = {line.split()[4] for line in said_inside(host, mounts, "cat", "/proc/self/mountinfo").splitlines()}
    assert {"/", "/proc"} <= points
    assert not [point for point in points if point.startswith("/sys")]
    assert "python" in said_inside(host, mounts, "ls", "/usr/bin")
    assert Path("/proc/self/mountinfo").read_text() == before


def test_who_is_started_in_it_has_no_group_and_no_capability_of_the_service(
    host: Installation, mounts: FewMounts
) -> None:
    status = dict(
        line.split(":", 1) for line in said_inside(host, mounts, "cat", "/proc/self/status").splitlines() if ":" in line
    )
    assert status["Groups"].split() == []
    assert status["Uid"].split() == status["Gid"].split() == ["64001"] * 4
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}


def test_a_bubblewrap_that_gains_privileges_is_not_started_so(host: Installation, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.touch()
    program.chmod(0o4755)
    with pytest.raises(FewMountsError):
        FewMounts.open(replace(host, bwrap=program), tmp_path)


@pytest.mark.parametrize("has_nsenter", [True, False])
async def test_runs_are_the_same_from_it_and_without_it(
    has_nsenter: bool, make_isolation: Callable[..., BubblewrapIsolation], host: Installation, tmp_path: Path
) -> None:
    commands = list[tuple[str, ...]]()

    def seen(plan: Plan) -> tuple[str, ...]:
        commands.append(command_line(plan))
        return commands[-1]

    tmp_path.joinpath("main.py").write_text(
        "for name in ('mountinfo', 'status'):\n"
        "    for line in open(f'/proc/self/{name}'):\n"
        "        if name == 'mountinfo': print(*line.split()[4:6])\n"
        "        elif line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:', 'Groups')): print(line.strip())\n"
    )
    installed = host if has_nsenter else replace(host, nsenter=None)
    async with make_isolation(installation=installed, profile=Profile(seen)) as isolation:
        outcome = await isolation.run(RunSpec(tmp_path, "main.py", runtime_of("main.py")))
    assert outcome.status is RunStatus.OK, outcome
    assert commands[-1][0] == str(host.nsenter if has_nsenter else host.setpriv)
    said = outcome.stdout.decode().splitlines()
    assert {"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t" + "0" * 16, "CapEff:\t" + "0" * 16} <= set(said)
    assert not [line for line in said if line.startswith(("/usr ", "/ ")) and not line.split()[1].startswith("ro")]
