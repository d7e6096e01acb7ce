"""nats-server is killed while requests are in flight: each is answered, nothing that was accepted is lost."""

import asyncio
import os
import signal
from itertools import islice

import httpx
import pytest

from skillbus.common.bus.objects import open_object_store
from skillbus.common.testing import eventually
from skillbus.contracts.resources import UPLOADS

from .conftest import System, names, problem, skill_package

pytestmark = pytest.mark.asyncio(loop_scope="module")

_UPLOADS = 6
"""Half of the indexer's permits: those that were lost hold theirs until JetStream's own time is over."""
_OTHERS = 22
_ANSWERED_WITHIN_S = 30.0
"""The gateway's patience with an upload, and one try of the indexer's after it."""
_LOST_REPLY_S = 8.0
"""A reply of JetStream that was lost is waited for 5 s."""
_REDELIVERED_S = 45.0
"""A message whose acknowledgement was lost comes again after 30 s."""


def _name(number: int) -> str:
    return f"crash-{number}"


def _large(number: int) -> bytes:
    """A package that travels through the object store."""
    return skill_package(f"large-{number}", "Large and heavy.", {"noise.txt": os.urandom(400_000).hex()})


def _kill(system: System) -> None:
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


async def _until_found(system: System, name: str, description: str) -> None:
    await eventually(lambda: system.hits(description, limit=100), lambda hits: name in names(hits))


@pytest.mark.parametrize("answered", [1, 12])
async def test_every_request_is_answered_when_nats_dies_and_accepted_uploads_are_found(
    system: System, answered: int
) -> None:
    first = 100 * answered
    for name in ("stays", "runs"):
        assert (await system.install(skill_package(name, f"It {name}."))).status_code == 201
    numbers = range(first, first + _UPLOADS)
    uploads = [system.install(skill_package(_name(n), f"Number {n} of those that NATS died under.")) for n in numbers]
    uploads.append(system.install(_large(first)))
    searches = [system.search(f"it stays {n}") for n in range(_OTHERS)]
    runs = [system.run("runs") for _ in range(_OTHERS)]
    requests = [asyncio.ensure_future(request) for request in (*uploads, *searches, *runs)]
    async with asyncio.timeout(_ANSWERED_WITHIN_S):
        for answer in islice(asyncio.as_completed(requests), answered):
            await answer
        _kill(system)
        answers = await asyncio.gather(*requests)
    refused = [answer.text for answer in answers if not _is_answer(answer)]
    assert refused == []
    accepted = {answer.json()["name"]: answer.json()["description"] for answer in answers if answer.status_code == 201}
    assert accepted, [answer.text for answer in answers[: len(uploads)]]

    assert await eventually(lambda: _ready(system), lambda status: status == 200, wait_s=5) == 200
    for name, description in accepted.items():
        await _until_found(system, name, description)
    assert (await system.run("runs")).json()["status"] == "ok"


async def test_a_skill_uploaded_after_the_crashes_is_found_at_once(system: System) -> None:
    assert (await system.install(skill_package("afterwards", "Comes when all is well again."))).json()["indexed"]
    assert (await system.hits("comes when all is well again", limit=1))[0]["name"] == "afterwards"


async def test_after_the_crashes_nothing_is_half_installed(system: System) -> None:
    assert (await system.install(skill_package("whole", "Installed as a whole."))).status_code == 201

    async def installed() -> tuple[set[str], set[str]]:
        skills = (await system.http.get("/api/skills", params={"limit": 100})).json()["skills"]
        folders = {path.name for path in (system.data / "skills").iterdir()}
        return folders, {skill["name"] for skill in skills if skill["indexed"]}

    await eventually(installed, lambda found: "whole" in found[0] and found[0] == found[1], wait_s=_LOST_REPLY_S)
    await eventually(system.counts, lambda counts: 0 < counts[0] == counts[1], wait_s=_LOST_REPLY_S)


async def test_an_upload_to_the_bucket_during_a_crash_is_installed_afterwards(system: System) -> None:
    bucket = await open_object_store(system.standalone.bus, UPLOADS)
    await bucket.put("dropped.zip", skill_package("dropped", "Dropped into the bucket before the crash."))
    _kill(system)
    await eventually(lambda: _ready(system), lambda status: status == 200)
    await eventually(
        lambda: system.hits("dropped into the bucket before the crash", limit=3),
        lambda hits: "dropped" in names(hits),
        wait_s=_REDELIVERED_S,
    )
    await eventually(bucket.names, lambda left: left == [], wait_s=_REDELIVERED_S)
