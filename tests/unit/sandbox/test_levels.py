"""Which levels bubblewrap may be asked for."""

from collections.abc import Sequence

import pytest

from skillbus.sandbox.adapters.bubblewrap.isolation import BubblewrapIsolation
from skillbus.sandbox.domain.run.spec import IsolationLevel


@pytest.mark.parametrize("levels", [(), (IsolationLevel.RUNSC,), (IsolationLevel.FULL, IsolationLevel.RUNSC)])
def test_a_level_that_bubblewrap_does_not_make_is_refused_by_name(levels: Sequence[IsolationLevel]) -> None:
    with pytest.raises(ValueError, match="bubblewrap isolates at the levels full, filtered, container") as caught:
        BubblewrapIsolation(levels=levels)
    assert all(level in str(caught.value) for level in levels)
