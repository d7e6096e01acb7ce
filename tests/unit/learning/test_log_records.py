"""Records of logs: headers of any style, lines that continue them, and bad input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillbus.learning.logs.records.components import name_component
from skillbus.learning.logs.records.reader import LogRecord, read_records
from skillbus.learning.logs.records.severity import Severity


def read(*lines: str) -> list[LogRecord]:
    return list(read_records(lines))


@pytest.mark.parametrize(
    ("line", "level", "component", "message"),
    [
        ("2031-10-18 18:01:47,978 WARN [main] org.Master: Made 5", Severity.WARNING, "org.Master", "Made 5"),
        ("2031-07-29 17:41:44,747 - INFO  [Peer[id=1]/0:0:1:Vote@774] - Out: 3", Severity.INFO, "Vote", "Out: 3"),
        ("[Sun Dec 04 04:47:44 2031] [error] child in state 6", Severity.ERROR, "", "child in state 6"),
        ("Dec 10 06:55:46 lab sshd[24200]: Invalid user x", Severity.UNKNOWN, "sshd", "Invalid user x"),
        ("081109 203615 148 INFO dfs.Node$Responder: done 1", Severity.INFO, "dfs.Node", "done 1"),
        ("a.2031-05-16_13:5 2031-05-16 00:00:00.008 2 INFO n.api [req-381a 1a2b - -] up", Severity.INFO, "n.api", "up"),
        ("[10.30 16:49:06] chrome.exe *64 - a.b.com:80 close", Severity.UNKNOWN, "chrome.exe", "a.b.com:80 close"),
        ("03-17 16:13:38.811  1702  2395 E WindowManager: hidden", Severity.ERROR, "WindowManager", "hidden"),
        ("I0102 12:00:00.123456    1234 server.go:123] Started x", Severity.INFO, "server.go", "Started x"),
        ("20311223-22:15:29:606|Step_LSC|30002312|changed 3579", Severity.UNKNOWN, "Step_LSC", "changed 3579"),
        ("2031-01-01 12:00:00.123  INFO 1234 --- [   main] c.e.App   : Started", Severity.INFO, "c.e.App", "Started"),
        ("2031-01-01 12:00:00,123 - app - CRITICAL - lost", Severity.FATAL, "app", "lost"),
        ("ERROR: no header but a level", Severity.ERROR, "", "no header but a level"),
        ('{"time": "2031-01-01T00:00:00", "level": "warn", "app": "db", "msg": "hot"}', Severity.WARNING, "db", "hot"),
        ('time="2031-01-01T00:00:00Z" level=error msg="no route" module=net', Severity.ERROR, "net", "no route"),
        ("no header at all", Severity.UNKNOWN, "", "no header at all"),
    ],
)  # fmt: skip
def test_the_header_is_found_from_the_lines_of_the_log_itself(
    line: str, level: Severity, component: str, message: str
) -> None:
    for record in read(line, line, line):
        assert (record.level, name_component(record.component), record.message) == (level, component, message)


def test_a_stack_trace_belongs_to_its_record() -> None:
    records = read(
        "2031-01-01 10:00:00 ERROR web: request failed",
        "java.io.IOException: reset",
        "\tat a.b.C.run(C.java:12)",
        "",
        "Caused by: x.y.Z: gone",
        "2031-01-01 09:00:00 INFO web: clocks run backwards",
    )
    assert [(record.line, len(record.continued)) for record in records] == [(1, 3), (6, 0)]


def test_a_timed_line_of_another_form_starts_a_record_too() -> None:
    lines = ["2031-01-01 10:00:00 INFO web: request served"] * 20 + ["2031-01-01 10:00:00 free text"]
    assert read(*lines)[-1].message == "free text"


def test_records_without_header_are_continued_by_indented_lines() -> None:
    assert [record.message for record in read("first", "  more", "Traceback (most recent call last):", "last")] == [
        "first",
        "last",
    ]


def test_lines_without_the_header_are_records_if_there_are_many() -> None:
    lines = [f"2031-01-01 10:00:{n:02} INFO web: up" for n in range(20)] + ["plain words"] * 10 + ["  at a.b(C.java:1)"]
    assert [record.message for record in read(*lines)] == ["up"] * 20 + ["plain words"] * 10


@given(
    st.lists(st.one_of(st.text(max_size=80), st.binary(max_size=80).map(lambda it: it.decode("latin-1"))), max_size=20)
)
def test_any_lines_are_read_without_an_error(lines: list[str]) -> None:
    numbers = [record.line for record in read_records(lines)]
    assert numbers == sorted(set(numbers))
    assert all(0 < number <= len(lines) for number in numbers)


def test_long_lines_are_read_in_linear_time() -> None:
    for text in (
        "a" * 65_536,
        "[" * 65_536,
        "1.2" * 20_000,
        "a=b," * 16_000,
        "a/" * 32_000,
        " - " * 20_000,
        "12:" * 20_000,
    ):
        assert [record.line for record in read(text, f"2031-01-01 10:00:00 {text}", text)]
