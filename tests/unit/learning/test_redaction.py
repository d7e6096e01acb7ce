"""Redaction of secrets and personal data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learning.redaction import redact_commit, redact_text

_CANARY = "kanari8Vogel"
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {_CANARY}",
        f'{{"authorization": "Basic {_CANARY}", "n": 1}}',
        f"password={_CANARY} next=1",
        f'"db_password": "two words {_CANARY}", "n": 1',
        f'{{\\"client_secret\\": \\"{_CANARY}\\"}}',
        f"密码：{_CANARY}",
        f"run --api-key {_CANARY} --verbose",
        f"Cookie: theme=dark; sid={_CANARY}",
        f'{{"name": "Set-Cookie", "value": "sid={_CANARY}; Path=/"}}',
        f'{{"name": "X-Api-Key", "value": "{_CANARY}"}}',
        f"postgresql://app:{_CANARY}@db.internal/shop",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_CANARY}\n-----END RSA PRIVATE KEY-----",
        f"/home/{_CANARY}/project/a.py",
        f"C:\\Users\\{_CANARY}\\project",
        f"{_CANARY}@example.com wrote",
        f"login user={_CANARY} rhost=x",
        f"the password is {_CANARY}.",
        f"set password for root: {_CANARY}",
        f"login with password {_CANARY} now",
        f"password\t{_CANARY}",
        f"credentials -> {_CANARY}",
        f"数据库密码是{_CANARY}",
        f"密码为 {_CANARY}",
        f"('password', '{_CANARY}')",
        f"mysql -u root -p{_CANARY} shop",
        f"pass={_CANARY}&x=1",
        f"<soap:password>{_CANARY}</soap:password>",
        f"GET /login?next=a%26password%3D{_CANARY}",
        f"body=%7B%22password%22%3A%22{_CANARY}%22%7D",
        f'{{"key": "api_key", "value": "{_CANARY}"}}',
    ],
)
def test_a_secret_is_replaced_where_its_surroundings_show_it(text: str) -> None:
    assert _CANARY not in redact_text(text)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("key AKIAIOSFODNN7EXAMPLE used", "key <token> used"),
        (f"got {_JWT} from the client", "got <token> from the client"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "<secret>"),
        ("trace 9f86d081884c7d659a2feaa0c55ad015", "trace <secret>"),
        ("card 4111 1111 1111 1111 was declined", "card <card> was declined"),
        ("来自13812345678的短信", "来自<phone>的短信"),
        ("密钥sk-abcdefghijklmnopqrst1已失效", "密钥<token>已失效"),
        (
            "https://shop.example.com/reset/nskZfKLpangNJpFY5tAaGWnqkKWr9nad/x",
            "https://shop.example.com/reset/<secret>/x",
        ),
        ("id 11010519491231002X", "id <identity-number>"),
        ("您的验证码: 662833", "您的验证码: <secret>"),
        ("cvv 123, PIN: 4711", "cvv <secret>, PIN: <secret>"),
        ("from 10.0.0.1 and fe80::1", "from <ip> and <ip>"),
    ],
)
def test_a_secret_is_replaced_where_its_form_shows_it(text: str, redacted: str) -> None:
    assert redact_text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "missing required header authorization",
        "token expired",
        "the password is required",
        "Password for user has 3 characters too few",
        "PASS: test_login",
        "secret store started in 12 ms",
        "pin 4 of connector J12",
        "https://shop.example.com/orders/3f2a9c1e-1111-4222-8333-944445555666/some-long-name-of-a-product-2024",
        "<token> expected, found </object>",
        "Failed password for invalid user from port 22 ssh2",
        "tests/unit/test_serializers_of_all_kinds.py::TestSerializer::test_alt_salt[value0]",
        "org/apache/zookeeper/server/quorum/QuorumCnxManager",
        "ConnectionResetErrorAndSomething2Long",
        "authentication failure; logname= uid=0 euid=0",
        "order 10012345678901 at 1767225600717",
        "blk_-4539578763621486",
        "card 4111111111111112 has a wrong check digit",
        "12:34:56 v1.2.3 took 0.25 s",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@given(st.text(st.sampled_from("abZ09 .:=@/-_\"'\\<>{}密码\nBearer cookie password"), max_size=80))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


def test_the_hash_of_a_commit_is_no_secret_where_a_commit_is_expected() -> None:
    commit = "ef61982b5a1ce0c1ef61982b5a1ce0c1ef61982b"
    assert redact_commit(commit) == commit
    assert redact_commit("ann@example.com") == "<email>"
