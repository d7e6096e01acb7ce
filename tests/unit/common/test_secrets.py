"""Secrets in the texts of others."""

from pydantic import JsonValue, SecretStr

from skillbus.common.secrets import redact_json, redact_text

KEY, LONGER, SHORT = SecretStr("key-12345678"), SecretStr("key-12345678-and-more"), SecretStr("debug")


def test_secrets_are_redacted_in_names_and_values() -> None:
    value: JsonValue = {"key-12345678": ["a key-12345678 b", 7, None, {"x": "key-12345678"}]}
    assert redact_json(value, [KEY]) == {"***": ["a *** b", 7, None, {"x": "***"}]}


def test_a_secret_that_contains_another_is_redacted_whole() -> None:
    assert redact_text("key-12345678-and-more", [KEY, LONGER]) == "***"


def test_short_values_stay_unless_the_caller_lowers_the_bound() -> None:
    assert redact_text("debug", [SHORT]) == "debug"
    assert redact_json("debug", [SHORT]) == "debug"
    assert redact_text("debug", [SHORT], min_characters=4) == "***"


def test_an_empty_secret_redacts_nothing() -> None:
    assert redact_text("text", [SecretStr("")], min_characters=0) == "text"
