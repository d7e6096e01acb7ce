"""Where a secret may be sent, as the operator lists it."""

import pytest

from skillbus.common.outbound.secret_grants import STDIO, Destination, SecretGrants, is_place_of


def may_go(text: str, name: str, destination: Destination) -> bool:
    return is_place_of(destination, SecretGrants.parse(text).variables.get(name, frozenset()))


def test_a_host_is_reached_over_tls_at_any_port() -> None:
    text = "KEY=api.example.org, other.example.org"
    assert may_go(text, "KEY", Destination("https", "api.example.org"))
    assert may_go(text, "KEY", Destination("https", "API.Example.org.", 8443))
    assert may_go(text, "KEY", Destination("https", "other.example.org"))
    for stranger in ("example.org", "x.api.example.org", "api.example.org.evil.example", "api.example.or"):
        assert not may_go(text, "KEY", Destination("https", stranger))
    assert not may_go(text, "KEY", Destination("http", "api.example.org"))
    assert not may_go(text, "KEY", STDIO)


def test_a_port_that_is_listed_is_the_only_one() -> None:
    assert may_go("KEY=api.example.org:443", "KEY", Destination("https", "api.example.org"))
    assert may_go("KEY=[2001:db8::1]:8443", "KEY", Destination("https", "2001:db8::1", 8443))
    assert not may_go("KEY=api.example.org:443", "KEY", Destination("https", "api.example.org", 8443))


def test_a_connection_without_tls_is_listed_as_such() -> None:
    assert may_go("KEY=http://127.0.0.1:8000", "KEY", Destination("http", "127.0.0.1", 8000))
    assert may_go("KEY=http://vllm", "KEY", Destination("http", "vllm", 8000))
    assert not may_go("KEY=http://vllm", "KEY", Destination("https", "vllm"))


def test_a_started_server_is_a_place_too() -> None:
    assert may_go("env:KEY=stdio", "KEY", STDIO)
    assert not may_go("KEY=stdio", "KEY", Destination("https", "stdio"))
    assert not may_go("KEY=https://stdio", "KEY", STDIO)


def test_keys_of_well_known_providers_go_to_their_hosts_without_configuration() -> None:
    assert may_go("", "OPENAI_API_KEY", Destination("https", "api.openai.com"))
    assert may_go("", "DASHSCOPE_API_KEY", Destination("https", "dashscope.aliyuncs.com"))
    assert may_go("", "ANTHROPIC_API_KEY", Destination("https", "api.anthropic.com"))
    assert may_go("", "GEMINI_API_KEY", Destination("https", "generativelanguage.googleapis.com"))
    assert not may_go("", "OPENAI_API_KEY", Destination("https", "dashscope.aliyuncs.com"))
    assert not may_go("", "OPENAI_API_KEY", Destination("https", "api.openai.com", 8443))
    assert not may_go("", "OPENAI_API_KEY", Destination("http", "api.openai.com"))


def test_an_entry_replaces_the_built_in_one_of_its_name_and_no_other() -> None:
    text = "OPENAI_API_KEY=gateway.example.org"
    assert not may_go(text, "OPENAI_API_KEY", Destination("https", "api.openai.com"))
    assert may_go(text, "DASHSCOPE_API_KEY", Destination("https", "dashscope.aliyuncs.com"))
    assert not may_go("OPENAI_API_KEY=", "OPENAI_API_KEY", Destination("https", "api.openai.com"))


@pytest.mark.parametrize(
    "entry",
    [
        *("KEY", "=host", "A B=host", "file:=host", "other:KEY=host", "KEY=ftp://host", "KEY=*.example.org"),
        *("KEY=host/path", "KEY=user@host", "KEY=host:0", "KEY=127.1", "KEY=http://", "KEY=fe80::1%eth0"),
    ],
)
def test_an_entry_that_is_malformed_is_refused_by_its_number_and_not_quoted(entry: str) -> None:
    with pytest.raises(ValueError, match="entry 2") as caught:
        SecretGrants.parse(f"GOOD=host;\n ;{entry}")
    assert entry not in str(caught.value)
