import re

from hypothesis import example, given
from hypothesis import strategies as st

from skillbus.gateway.domain.access.api_key import KeyText, make_key, parse_key

KEY_CHARACTERS = "skb_0aZ-="


def test_a_new_key_has_256_random_bits_and_its_text_is_parsed_again() -> None:
    made = make_key()
    parsed = parse_key(made.reveal())
    assert parsed is not None
    assert (parsed.id, parsed.secret) == (made.id, made.secret)
    assert re.fullmatch(r"skb_[0-9a-f]{10}_[A-Za-z0-9_-]{43}", made.reveal())
    assert len({make_key().reveal() for _ in range(1_000)}) == 1_000


@given(st.text() | st.text(alphabet=KEY_CHARACTERS, max_size=80))
@example("skb_" + "a" * 8 + "_" + "b" * 43 + "\n")
@example("skb_" + "a" * 8 + "_" + "b" * 42 + "é")
@example("skb_" + "\u0660" * 8 + "_" + "b" * 43)
def test_only_the_text_of_a_key_is_parsed_and_it_is_the_one_text_of_its_parts(text: str) -> None:
    parsed = parse_key(text)
    if parsed is None:
        assert not re.fullmatch(r"skb_[a-z0-9]{8,32}_[A-Za-z0-9_-]{43}", text, re.ASCII)
    else:
        assert parsed.reveal() == text


@given(
    st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=32),
    st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", min_size=43, max_size=43),
    st.text(min_size=1, max_size=3),
)
def test_a_key_survives_its_text_and_nothing_may_stand_around_it(key_id: str, secret: str, more: str) -> None:
    text = KeyText(key_id, secret).reveal()
    assert parse_key(text) == KeyText(key_id, secret)
    assert parse_key(f"{text}{more}") is None
    assert parse_key(f"{more}{text}") is None


def test_a_secret_matches_its_own_hash_only_and_is_in_no_repr() -> None:
    key, other = make_key(), make_key()
    assert key.matches_hash(key.hash_secret())
    assert not key.matches_hash(other.hash_secret())
    assert not key.matches_hash("")
    assert key.secret not in f"{key!r} {key}"
    assert key.hash_secret() != key.secret
