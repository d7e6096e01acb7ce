"""The real start of `skillbus up`, refused."""

import gc
from pathlib import Path

import pytest

from skillbus.cli.errors import StartFailedError
from skillbus.cli.server.launcher import ServerPlan, start_standalone
from skillbus.standalone.data_directory import lock_data_directory


async def test_a_start_that_is_refused_leaves_the_garbage_collector_at_work(tmp_path: Path) -> None:
    with lock_data_directory(tmp_path), pytest.raises(StartFailedError):
        async with start_standalone(ServerPlan(tmp_path, "127.0.0.1", 0, "WARNING")):
            pass
    assert gc.isenabled()
