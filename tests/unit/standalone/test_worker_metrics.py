"""Metrics of several processes as one document."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from skillbus.standalone.workers.pool import merge_families


def make_registry(count: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("asked", "Requests.", ["route"], registry=registry).labels("/").inc(count)
    return registry


def test_samples_of_workers_have_a_label_and_families_stay_together() -> None:
    own, first, second = make_registry(1), make_registry(2), make_registry(3)
    Gauge("only_there", "Of one worker.", registry=second).set(7)
    merged = list(merge_families(own.collect(), {"1": first.collect(), "2": second.collect()}))
    assert [family.name for family in merged] == ["asked", "only_there"]
    totals = {it.labels.get("worker"): it.value for it in merged[0].samples if it.name == "asked_total"}
    assert totals == {None: 1, "1": 2, "2": 3}
    assert [(it.labels, it.value) for it in merged[1].samples] == [({"worker": "2"}, 7)]
