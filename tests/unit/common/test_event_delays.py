"""Delays between deliveries of an event that failed."""

from skillbus.common.bus.events import _compute_delay


def test_delays_are_spread_by_a_fifth_in_both_directions() -> None:
    delays = [delay for _ in range(200) if (delay := _compute_delay(1, (10.0, 20.0))) is not None]
    assert len(delays) == 200
    assert all(8.0 <= delay <= 12.0 for delay in delays)
    assert min(delays) < 9.5
    assert max(delays) > 10.5, "events that failed together would return together"


def test_after_the_last_delay_there_is_none() -> None:
    assert _compute_delay(2, (10.0, 20.0)) is not None
    assert _compute_delay(3, (10.0, 20.0)) is None
