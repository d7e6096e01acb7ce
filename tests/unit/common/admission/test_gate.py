"""The gate in an event loop."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from skillbus.common.admission.desk import Permit
from skillbus.common.admission.fair_queue import WorkKind
from skillbus.common.admission.gate import AdmissionGate, AdmissionMetrics, ServerBusyError


async def _fill(gate: AdmissionGate, key: str) -> tuple[Permit, list[asyncio.Task[Permit]], ServerBusyError]:
    """Take the only place for a key and let more of its requests wait, until one is refused."""
    permit = await gate.admit(key)
    waiting: list[asyncio.Task[Permit]] = []
    while True:
        task = asyncio.create_task(gate.admit(key))
        await asyncio.sleep(0)
        if task.done() and isinstance(error := task.exception(), ServerBusyError):
            return permit, waiting, error
        waiting.append(task)


async def test_a_request_above_the_limit_starts_when_another_ends() -> None:
    gate = AdmissionGate("test", lowest=1, highest=1)
    first = await gate.admit("a")
    second = asyncio.create_task(gate.admit("a"))
    await asyncio.sleep(0)
    assert not second.done()
    gate.leave(first)
    gate.leave(await second)
    assert gate.desk.in_flight == 0


async def test_a_refused_request_learns_when_to_come_again() -> None:
    _, waiting, refusal = await _fill(AdmissionGate("test", lowest=1, highest=1), "a")
    assert refusal.details == {"retry_after_s": 1, "limit_of": "server"}
    assert refusal.retryable
    for task in waiting:
        task.cancel()


async def test_a_key_that_floods_leaves_the_next_turn_to_another() -> None:
    gate = AdmissionGate("test", lowest=1, highest=1)
    permit, waiting, _ = await _fill(gate, "flood")
    calm = asyncio.create_task(gate.admit("calm"))
    await asyncio.sleep(0)
    for _ in range(2):
        gate.leave(permit)
        done, _ = await asyncio.wait([calm, *waiting], return_when=asyncio.FIRST_COMPLETED)
        if calm in done:
            break
        (task,) = done
        waiting.remove(task)
        permit = task.result()
    assert calm.done()
    for task in waiting:
        task.cancel()


async def test_a_caller_who_leaves_while_it_waits_takes_no_place() -> None:
    gate = AdmissionGate("test", lowest=1, highest=1)
    first = await gate.admit("a")
    left, third = (asyncio.create_task(gate.admit("a")) for _ in range(2))
    await asyncio.sleep(0)
    left.cancel()
    gate.leave(first)
    gate.leave(await third)
    assert gate.desk.in_flight == gate.desk.waiting == 0


async def test_a_caller_who_leaves_at_its_turn_gives_its_place_back() -> None:
    gate = AdmissionGate("test", lowest=1, highest=1)
    first = await gate.admit("a")
    second = asyncio.create_task(gate.admit("a"))
    await asyncio.sleep(0)
    gate.leave(first)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert gate.desk.in_flight == 0


async def test_operators_see_the_limit_what_is_in_flight_and_what_was_refused() -> None:
    registry = CollectorRegistry()
    gate = AdmissionGate("test", AdmissionMetrics(registry), lowest=1, highest=1)
    _, waiting, _ = await _fill(gate, "a")
    with pytest.raises(ServerBusyError):
        await gate.admit("a", WorkKind.IMPORT)

    def read(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"skillbus_admission_{name}", {"gate": "test", **labels})

    assert read("limit") == read("in_flight") == 1
    assert read("waiting") == len(waiting) > 0
    assert read("refused_total", kind="read") == read("refused_total", kind="import") == 1
    for task in waiting:
        task.cancel()
