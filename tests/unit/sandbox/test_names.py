import pytest

from skillbus.sandbox.domain.run.spec import is_safe_name


@pytest.mark.parametrize("name", ["a.txt", "charts/图 1.png", "a" * 128, "a/b/c/d/e/f/g/h", ".hidden", "-rf"])
def test_plain_relative_names_are_safe(name: str) -> None:
    assert is_safe_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../x",
        "a//b",
        "a/",
        ".",
        "a\\b",
        "C:x",
        "a\nb",
        "a\0b",
        "a\x1b[2J",
        "\u202egnp.exe",
        "\udcff",
        "a" * 129,
        "a/b/c/d/e/f/g/h/i",
        "é" * 125,
        "trailing.",
    ],
)
def test_names_that_lead_elsewhere_or_deceive_are_not(name: str) -> None:
    assert not is_safe_name(name)
