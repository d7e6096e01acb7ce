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


@pytest.mark.parametrize(
    ("variable", "value"), [("SKILLBUS_DISK_MAX", "1"), ("SKILLBUS_GATEWAY_REQUESTS_PER_MINUTE", "s3cret")]
)
async def test_a_variable_that_cannot_be_used_is_named_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(StartFailedError) as refused:
        async with start_standalone(ServerPlan(tmp_path, "127.0.0.1", 0, "WARNING")):
            pass
    assert variable in refused.value.detail
    assert "s3cret" not in refused.value.detail
    assert "\n" not in refused.value.detail
