"""What the environment says of the owner's key reaches the gateway, by either of its names."""

from pathlib import Path

import pytest

from skillbus.cli.server.commands import MAX_WORKERS
from skillbus.standalone import settings
from skillbus.standalone.app import StandaloneSettings, StartError


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SKILLBUS_OWNER_KEY", "SKILLBUS_GATEWAY_OWNER_KEY", "SKILLBUS_GATEWAY_OWNER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["SKILLBUS_OWNER_KEY", "SKILLBUS_GATEWAY_OWNER_KEY"])
def test_a_key_that_is_set_is_never_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0123456789abcdef")
    key = StandaloneSettings().build_gateway_settings().owner_key
    assert key is not None
    assert key.get_secret_value() == "0123456789abcdef"


def test_a_key_s_file_is_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLBUS_GATEWAY_OWNER_KEY_FILE", "key")
    assert StandaloneSettings().build_gateway_settings().owner_key_file == Path("key")


def test_there_is_no_key_unless_it_is_set() -> None:
    gateway = StandaloneSettings().build_gateway_settings()
    assert (gateway.owner_key, gateway.no_key) == (None, False)


@pytest.mark.parametrize(
    "name", ["SKILLBUS_OWNER_KEY", "SKILLBUS_GATEWAY_OWNER_KEY", "SKILLBUS_GATEWAY_OWNER_KEY_FILE"]
)
def test_a_key_and_no_key_exclude_each_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert StandaloneSettings(no_key=True).build_gateway_settings().no_key
    monkeypatch.setenv(name, "0123456789abcdef")
    with pytest.raises(StartError, match="no-key") as refused:
        StandaloneSettings(no_key=True).build_gateway_settings()
    assert "0123456789abcdef" not in str(refused.value)


def test_the_most_workers_are_the_same_for_the_command_and_the_settings() -> None:
    assert StandaloneSettings(workers=MAX_WORKERS).workers == settings.MAX_WORKERS
