"""An event that no handler can read, from the consumer that gives up on it to the operator who deals with it."""

import pytest

from skillbus.common.testing import eventually
from skillbus.contracts.resources import EVENTS, LEARNER_USES

from .conftest import Json, System

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(system: System) -> list[Json]:
    answer = await system.http.get("/api/dead-letters", params={"consumer": LEARNER_USES.name})
    assert answer.status_code == 200, answer.text
    letters: list[Json] = answer.json()["dead_letters"]
    return letters


async def test_an_unreadable_event_is_listed_shown_replayed_and_dropped(system: System) -> None:
    subject = "skillbus.evt.knowledge.used.default"
    await system.standalone.bus.jetstream.publish(subject, b"not json", stream=EVENTS.name)
    (letter,) = await eventually(lambda: listed(system), bool)
    shown = (await system.http.get(f"/api/dead-letters/{letter['sequence']}")).json()
    assert (shown["subject"], shown["body"]) == (subject, "not json")

    replayed = await system.http.post(f"/api/dead-letters/{letter['sequence']}/replay")
    assert replayed.status_code == 200, replayed.text
    (again,) = await eventually(
        lambda: listed(system), lambda letters: letters and letters[0]["sequence"] != letter["sequence"]
    )
    assert (await system.http.delete(f"/api/dead-letters/{again['sequence']}")).status_code == 200
    assert (await system.http.delete(f"/api/dead-letters/{again['sequence']}")).status_code == 404
    assert await listed(system) == []
