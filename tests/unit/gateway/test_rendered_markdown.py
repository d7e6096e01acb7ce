"""Markdown of strangers on pages: its links lead to pages and mail, and to nothing else."""

import pytest

from skillbus.gateway.service.pages.rendering import render_markdown


@pytest.mark.parametrize(
    "address",
    [
        "javascript:a",
        "data:text/html,a",
        "vscode://x/y",
        "ms-msdt:/id",
        "blob:http://a/b",
        "filesystem:x",
        "Search-MS:q",
    ],
)
def test_a_link_of_a_text_starts_no_program(address: str) -> None:
    for text in (f"[x]({address})", f"<{address}>", f"[x]\n\n[x]: {address}"):
        assert "<a " not in str(render_markdown(text)), text


@pytest.mark.parametrize(
    "address", ["https://example.org/a?b:c", "mailto:a@example.org", "/knowledge/K-1", "#part", "a/b:c"]
)
def test_a_link_of_a_text_leads_to_pages_and_mail(address: str) -> None:
    assert f'href="{address}"' in str(render_markdown(f"[x]({address})"))
