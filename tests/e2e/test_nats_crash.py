"""nats-server is killed while requests are in flight: each is answered, nothing that was accepted is lost."""

import asyncio
import os
import signal

import httpx
import pytest

from skillbus.common.testing import eventually

from .conftest import System, names, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

_UPLOADS = 6
"""Half of the indexer's permits: those that were lost hold theirs until JetStream's own time is over."""
_OTHERS = 22
_ANSWERED_WITHIN_S = 30.0
"""The gateway's patience with an upload, and one try of the indexer's after it."""
_LOST_REPLY_S = 8.0
"""A reply of JetStream that was lost is waited for 5 s."""


def _name(number: int) -> str:
    return f"crash-{number}"


async def _kill(system: System, after_s: float) -> None:
    await asyncio.sleep(after_s)
    pid = system.standalone.nats.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def _is_answer(answer: httpx.Response) -> bool:
    if answer.status_code < 300:
        return True
    status, code = problem(answer)
    return status in (409, 429, 503, 504) and code != "internal"


async def _ready(system: System) -> int:
    return (await system.http.get("/readyz")).status_code


@pytest.mark.parametrize("after_s", [0.02, 0.15])
async def test_every_request_is_answered_when_nats_dies_and_accepted_uploads_are_found(
    system: System, after_s: float
) -> None:
    first = int(after_s * 1000)
    for name in ("stays", "runs"):
        assert (await system.install(skill_package(name, f"It {name}."))).status_code == 201
    numbers = range(first, first + _UPLOADS)
    uploads = [system.install(skill_package(_name(n), f"Number {n} of those that NATS died under.")) for n in numbers]
    searches = [system.search(f"it stays {n}") for n in range(_OTHERS)]
    runs = [system.run("runs") for _ in range(_OTHERS)]
    async with asyncio.timeout(_ANSWERED_WITHIN_S):
        *answers, _ = await asyncio.gather(*uploads, *searches, *runs, _kill(system, after_s))
    refused = [answer.text for answer in answers if not _is_answer(answer)]
    assert refused == []
    accepted = [_name(n) for n, answer in zip(numbers, answers, strict=False) if answer.status_code == 201]
    assert accepted, [answer.text for answer in answers[:_UPLOADS]]

    assert await eventually(lambda: _ready(system), lambda status: status == 200, wait_s=5) == 200
    for name in accepted:
        number = name.removeprefix("crash-")
        await eventually(
            lambda number=number: system.hits(f"Number {number} of those that NATS died under.", limit=100),
            lambda hits, name=name: name in names(hits),
        )
    assert (await system.run("runs")).json()["status"] == "ok"


async def test_a_skill_uploaded_after_the_crashes_is_found_at_once(system: System) -> None:
    assert (await system.install(skill_package("afterwards", "Comes when all is well again."))).json()["indexed"]
    assert (await system.hits("comes when all is well again", limit=1))[0]["name"] == "afterwards"


async def test_after_the_crashes_nothing_is_half_installed(system: System) -> None:
    async def differs() -> set[str]:
        skills = (await system.http.get("/api/skills", params={"limit": 100})).json()["skills"]
        folders = {path.name for path in (system.data / "skills").iterdir()}
        return folders ^ {skill["name"] for skill in skills if skill["indexed"]}

    await eventually(differs, lambda found: not found, wait_s=_LOST_REPLY_S)
    await eventually(system.counts, lambda counts: counts[0] == counts[1], wait_s=_LOST_REPLY_S)
