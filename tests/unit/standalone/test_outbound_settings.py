"""What the embedder and the agent may connect to, as the environment sets it."""

from ipaddress import ip_address
from pathlib import Path

import pytest
from pydantic import ValidationError

from skillbus.agent.settings import AgentSettings
from skillbus.common.outbound.addresses import AddressRefusedError
from skillbus.embedder.settings import EmbedderSettings

SETTINGS = [EmbedderSettings, AgentSettings]


@pytest.mark.parametrize("kind", SETTINGS)
def test_loopback_is_closed_to_a_service_alone_and_open_in_standalone(
    kind: type[EmbedderSettings] | type[AgentSettings],
) -> None:
    assert not kind().address_rule.allows(ip_address("127.0.0.1"))
    opened = kind().open_loopback().address_rule
    assert opened.allows(ip_address("127.0.0.1"))
    assert opened.allows(ip_address("::1"))
    assert not opened.allows(ip_address("10.0.0.1"))


@pytest.mark.parametrize("kind", SETTINGS)
def test_addresses_that_are_listed_replace_loopback(
    kind: type[EmbedderSettings] | type[AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{kind.model_config['env_prefix']}PRIVATE_ADDRESSES"
    monkeypatch.setenv(name, "10.0.0.0/8")
    rule = kind().open_loopback().address_rule
    assert rule.allows(ip_address("10.0.0.1"))
    with pytest.raises(AddressRefusedError, match=name):
        rule.check_host("localhost", [ip_address("127.0.0.1")])
    monkeypatch.setenv(name, "")
    assert not kind().open_loopback().address_rule.allows(ip_address("127.0.0.1"))


def test_on_ones_own_machine_the_agent_reaches_loopback_and_follows_the_file_of_the_data_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert AgentSettings().mcp_file is None
    settings = AgentSettings().on_ones_own_machine(Path("data/mcp.json"))
    assert settings.address_rule.allows(ip_address("127.0.0.1"))
    assert settings.mcp_file == Path("data/mcp.json")
    monkeypatch.setenv("SKILLBUS_AGENT_MCP_FILE", "other.json")
    assert AgentSettings().on_ones_own_machine(Path("data/mcp.json")).mcp_file == Path("other.json")
    monkeypatch.setenv("SKILLBUS_AGENT_MCP_FILE", "")
    assert AgentSettings().on_ones_own_machine(Path("data/mcp.json")).mcp_file == Path("data/mcp.json")


@pytest.mark.parametrize("kind", SETTINGS)
def test_both_services_read_the_same_list_of_secrets(
    kind: type[EmbedderSettings] | type[AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLBUS_SECRETS", "KEY=api.example.org")
    assert kind().secrets == "KEY=api.example.org"
    monkeypatch.setenv("SKILLBUS_SECRETS", "KEY=sk-canary/123")
    with pytest.raises(ValidationError, match="entry 1") as refused:
        kind()
    assert "canary" not in str(refused.value)
    monkeypatch.setenv("SKILLBUS_SECRETS", "sk-canary-in-the-place-of-a-name")
    with pytest.raises(ValidationError, match="has no `=`") as refused:
        kind()
    assert "canary" not in str(refused.value)
