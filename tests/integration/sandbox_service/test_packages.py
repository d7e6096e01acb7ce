"""Skills that need packages, on the bus: had at installation or by the first run, or said to be missing."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest

from skillbus.common.bus.events import publish_event
from skillbus.common.testing import eventually
from skillbus.contracts.errors import ErrorCode, RequestError
from skillbus.contracts.indexer.skills import SKILL_INSTALLED, SkillChanged
from skillbus.contracts.sandbox.run_history import CANCEL_RUN, RunSelector
from skillbus.contracts.sandbox.skill_runs import RunStatus
from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.adapters.packages.layer_builders import find_uv
from skillbus.sandbox.domain.errors import SandboxUnavailable

from ..sandbox_dependencies.indexes import Index, serving
from .conftest import OpenSandbox, Sandbox

pytestmark = pytest.mark.skipif(find_uv() is None, reason="uv is not here")

_RUN = "0" * 32
_BLOCK = "# /// script\n# dependencies = ['greeting>=1']\n# ///\n"
_SCRIPT = f"{_BLOCK}import greeting\nprint(greeting.WORDS, greeting.__file__)\n"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as index:
        index.put_wheel(
            "greeting", "1.0", {"greeting.py": "WORDS = 'hello'\n", "greeting.pth": "import no_such_thing\n"}
        )
        yield index


@pytest.fixture
async def sandbox(open_one: OpenSandbox, index: Index) -> AsyncGenerator[Sandbox]:
    isolation = BubblewrapIsolation()
    try:
        await isolation.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    url = index.simple.replace("//", "//builder:s3kr3t@")
    async with open_one(isolation, dependencies="true", index_url=url, slots=1) as opened:
        yield opened


async def test_the_first_run_has_the_packages_and_later_ones_need_no_index(sandbox: Sandbox, index: Index) -> None:
    """tool-system.md § SkillsSandboxExecutor"""
    await sandbox.catalogue.put("greet", _SCRIPT)
    ran = await sandbox.run("greet")
    assert (await sandbox.text_of(ran), ran.status) == ("hello /deps/greeting.py\n", RunStatus.OK)
    index.served.clear()
    asked = len(index.asked)
    assert (await sandbox.run("greet")).status is RunStatus.OK
    assert len(index.asked) == asked


async def test_an_installed_skill_has_its_packages_before_it_is_run(sandbox: Sandbox, index: Index) -> None:
    skill = await sandbox.catalogue.put("greet", _SCRIPT)
    changed = SkillChanged(project=skill.project, name=skill.name, digest=skill.digest)
    await publish_event(
        sandbox.bus, SKILL_INSTALLED, changed, identity=skill.name, message_id="1", project=skill.project
    )

    async def built() -> bool:
        return any(path.endswith(".whl") for path in index.asked)

    await eventually(built, bool)
    ran = await sandbox.run("greet")
    assert await sandbox.text_of(ran) == "hello /deps/greeting.py\n"
    assert index.asked.count("/simple/greeting/") == 1


async def test_packages_that_cannot_be_had_are_an_error_of_the_run_that_says_which(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("lost", "print(1)", more={"requirements.txt": "nowhere-to-be-found"})
    with pytest.raises(RequestError) as caught:
        await sandbox.run("lost")
    assert caught.value.code is ErrorCode.DEPENDENCIES_UNAVAILABLE
    assert "nowhere-to-be-found" in caught.value.message
    assert "s3kr3t" not in caught.value.message
    assert not caught.value.retryable


async def test_packages_from_elsewhere_than_the_index_are_an_error_with_line_and_reason(sandbox: Sandbox) -> None:
    await sandbox.catalogue.put("far", "print(1)", more={"requirements.txt": "\na @ https://files.example/a.whl"})
    with pytest.raises(RequestError) as caught:
        await sandbox.run("far")
    assert caught.value.code is ErrorCode.DEPENDENCIES_UNAVAILABLE
    assert "requirements.txt, line 2" in caught.value.message


async def test_packages_that_are_slow_to_come_keep_no_other_run_waiting(sandbox: Sandbox, index: Index) -> None:
    await sandbox.catalogue.put("greet", _SCRIPT)
    await sandbox.catalogue.put("quick", "print('quick')")
    index.hangs = True
    slow = asyncio.create_task(sandbox.run("greet", timeout_s=4))

    async def asked() -> bool:
        return bool(index.asked)

    await eventually(asked, bool)
    assert (await sandbox.run("quick", timeout_s=6)).status is RunStatus.OK
    with pytest.raises(RequestError) as caught:
        async with asyncio.timeout(10):
            await slow
    assert caught.value.retryable


async def test_where_packages_are_switched_off_a_script_runs_with_what_the_machine_has(
    open_one: OpenSandbox, index: Index
) -> None:
    isolation = BubblewrapIsolation()
    try:
        await isolation.probe()
    except SandboxUnavailable as unavailable:
        pytest.skip(f"no sandbox on this machine: {unavailable}")
    async with open_one(isolation, dependencies="false", index_url=index.simple) as sandbox:
        await sandbox.catalogue.put("greet", _SCRIPT)
        ran = await sandbox.run("greet")
    assert (ran.status, ran.exit_code) == (RunStatus.FAILED, 1)
    assert not index.asked


async def test_a_run_that_waits_for_its_packages_can_be_cancelled(sandbox: Sandbox, index: Index) -> None:
    await sandbox.catalogue.put("greet", _SCRIPT)
    index.hangs = True
    slow = asyncio.create_task(sandbox.run("greet", timeout_s=20, run_id=_RUN))
    await eventually(lambda: asyncio.sleep(0, bool(index.asked)), bool)
    await sandbox.bus.caller.call(CANCEL_RUN, RunSelector(run_id=_RUN))
    async with asyncio.timeout(5):
        assert (await slow).status is RunStatus.CANCELLED
