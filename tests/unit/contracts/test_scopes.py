import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.contracts.scope import normalize_scope


@given(st.text(alphabet="/ .:*a\u3000\t", max_size=12))
def test_what_was_normalised_once_stays_as_it_is(text: str) -> None:
    """It is read at each hop: what passes one must pass the next."""
    try:
        scope = normalize_scope(text)
    except ValueError:
        return
    assert normalize_scope(scope) == scope


@pytest.mark.parametrize("text", ["../*", "x/.. /", "/a/./b", "/a//b", "/a/b*", "/a\x07b"])
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"segment|control"):
        normalize_scope(text)
