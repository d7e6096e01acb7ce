"""Replies of a sandbox whose cgroup is not usable."""

from pathlib import Path

import pytest

from skillbus.contracts.errors import ErrorCode, RequestError

from .conftest import OpenSandbox


async def test_a_cgroup_that_was_asked_for_and_cannot_be_had_keeps_everything_from_running(
    open_one: OpenSandbox, tmp_path: Path
) -> None:
    async with open_one(cgroup=str(tmp_path)) as sandbox:
        await sandbox.catalogue.put("say", "print('said')")
        with pytest.raises(RequestError, match="SKILLBUS_SANDBOX_CGROUP") as caught:
            await sandbox.run("say")
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
