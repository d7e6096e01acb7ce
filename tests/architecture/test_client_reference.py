"""The reference of the Python client (docs/client.md) is up to date."""

from .client_reference import PAGE, render_reference


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), "run `make documents`"
