import asyncio
import errno

import pytest

from skillbus.standalone.app import StartError
from skillbus.standalone.nats_server import check_loopback


async def test_this_machine_reaches_itself() -> None:
    await check_loopback()


@pytest.mark.parametrize("error", [OSError(errno.ENETUNREACH, "Network is unreachable"), TimeoutError()])
async def test_a_machine_without_loopback_is_told_how_to_switch_it_on(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    with pytest.raises(StartError, match="ip link set lo up") as refused:
        await check_loopback()
    assert "\n" not in str(refused.value)
