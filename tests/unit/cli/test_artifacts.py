import pytest

from skillbus.cli.errors import StrangeReplyError
from skillbus.cli.runs.artifacts import get_local_name


@pytest.mark.parametrize(
    ("name", "saved_as"),
    [
        ("report.csv", "report.csv"),
        ("图表.svg", "图表.svg"),
        ("charts/q1.png", "q1.png"),
        (".bashrc", "_bashrc"),
        ("a b.txt", "a b.txt"),
    ],
)
def test_a_name_becomes_a_plain_base_name(name: str, saved_as: str) -> None:
    assert get_local_name(name) == saved_as


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/../x", "/etc/passwd", "a//b", "a\\b", "C:x", "x\ny", "x\x1b[31m", "x\0", "\u202ex", "a/",
     "...", "n" * 201, "\ud800"],
)  # fmt: skip
def test_a_hostile_name_is_refused(name: str) -> None:
    with pytest.raises(StrangeReplyError):
        get_local_name(name)
