"""Readers of JUnit XML, pytest-json-report and run lists."""

import json
from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillbus.learning.test_runs.joining import ListedRun, join_runs, read_run_list
from skillbus.learning.test_runs.junit import read_junit
from skillbus.learning.test_runs.learning import learn_from_runs
from skillbus.learning.test_runs.pytest_json import read_pytest_json
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestRun, UnreadableRunError, decode_keys

from .run_samples import CASES, read_run, write_junit, write_python_failure

JAVA = """java.lang.IllegalStateException: cannot start
\tat org.example.App.start(App.java:10)
\tat org.example.AppTest.starts(AppTest.java:20)
Caused by: java.net.ConnectException: refused
\tat java.base/java.net.Socket.connect(Socket.java:1)
\tat org.example.db.Pool.open(Pool.java:33)
\t... 2 more"""
PYTHON = """Traceback (most recent call last):
  File "/p/tests/test_a.py", line 3, in test_a
    f()
  File "/p/shop/cart.py", line 9, in add
    raise
ValueError: no stock
"""
SCRIPT = """TypeError: x is undefined
    at parse (/srv/app/src/parse.js:3:7)
    at Object.<anonymous> (/srv/app/__tests__/parse.test.js:9:1)
    at runTest (/srv/app/node_modules/jest-runner/build/run.js:2:2)"""


def wrap(case: str, suite: str = 'name="org.example.AppTest"') -> bytes:
    return f"<testsuites><testsuite {suite}>{case}</testsuite></testsuites>".encode()


def count(run: TestRun) -> tuple[int, int, int]:
    return len(decode_keys(run.passed)), len(run.failures), sum(len(decode_keys(s.keys)) for s in run.skipped)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("<testcase name='a'/>", (1, 0, 0)),
        ("<testcase name='a'><failure>no</failure></testcase>", (0, 1, 0)),
        ("<testcase name='a'><error message='no'/></testcase>", (0, 1, 0)),
        ("<testcase name='a'><skipped/></testcase>", (0, 0, 1)),
        ("<testcase name='a' status='failed'/>", (0, 1, 0)),
        ("<testcase name='a' status='disabled'/>", (0, 0, 1)),
        ("<testcase name='a'><system-out>Error: no</system-out></testcase>", (1, 0, 0)),
        ("<testcase name='a'><flakyFailure><stackTrace>no</stackTrace></flakyFailure></testcase>", (1, 1, 0)),
        ("<testcase name='a'><flakyError message='no'/></testcase>", (1, 1, 0)),
        ("<testcase name='a'><failure/><rerunFailure>no</rerunFailure></testcase>", (0, 2, 0)),
        ("<testcase name='a'><rerunError>no</rerunError></testcase>", (0, 1, 0)),
        ("<testcase name='a'/><testcase name='a'><failure>no</failure></testcase>", (1, 1, 0)),
        ("<testsuite name='in'><testcase name='a'/></testsuite><testcase name='b'/>", (2, 0, 0)),
        ("<failure message='suite did not start'>x</failure>", (0, 1, 0)),
    ],
)
def test_dialects_of_junit_are_read(case: str, expected: tuple[int, int, int]) -> None:
    assert count(read_run(wrap(case))) == expected


def test_retries_that_pass_are_flaky_and_retries_that_fail_are_not() -> None:
    flaky = wrap("<testcase name='a'><flakyFailure message='no'/></testcase>")
    broken = wrap("<testcase name='a'><failure>one</failure><rerunFailure>two</rerunFailure></testcase>")
    assert [item.kind for item in learn_from_runs([read_run(flaky)], TestSettings()).items] == ["flaky"]
    assert [item.kind for item in learn_from_runs([read_run(broken)], TestSettings()).items] == ["preexisting"]


@pytest.mark.parametrize(
    ("text", "exception", "place", "message"),
    [
        (JAVA, "ConnectException", "org.example.db.Pool:open", "refused"),
        (SCRIPT, "TypeError", "src/parse.js:parse", "x is undefined"),
        (
            PYTHON,
            "ValueError", "p.shop.cart:add", "no stock",
        ),
        ("panic: runtime error: index out of range", "", "", "panic: runtime error: index out of range"),
    ],
)  # fmt: skip
def test_causes_are_read_from_the_texts_of_several_languages(
    text: str, exception: str, place: str, message: str
) -> None:
    [failure] = read_run(
        wrap(
            f"<testcase classname='org.example.AppTest' name='starts'><failure><![CDATA[{text}]]></failure></testcase>"
        )
    ).failures
    found = [f"{frame.module}:{frame.function}" for frame in failure.frames if frame.place == "project"]
    assert failure.exception == (exception or "Failure")
    assert failure.message == message
    assert ("".join(found[-1:])) == place


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<testsuites><testsuite name='a'><testcase name='b'>",
        b"<html><body/></html>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><testsuites><testsuite name="&x;"/></testsuites>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuites>&x;</testsuites>',
        b'<!DOCTYPE testsuites SYSTEM "http://localhost:1/x.dtd"><testsuites>&x;</testsuites>',
        b"<?xml version='1.0' encoding='no-such'?><testsuites/>",
        b"<?xml version='1.0' encoding='zlib'?><testsuites/>",
        b"<?xml version='1.0' encoding='undefined'?><testsuites/>",
        b"<testsuites>" + b"<testsuite>" * 1_000,
    ],
)
def test_broken_and_hostile_xml_is_an_error_of_the_file(data: bytes) -> None:
    with pytest.raises(UnreadableRunError):
        read_run(data)


def test_an_xml_bomb_is_refused_at_its_first_entity() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x"}">' for n in range(20))
    with pytest.raises(UnreadableRunError, match="entities"):
        read_run(f"<!DOCTYPE a [{entities}]><testsuites>&e19;</testsuites>".encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gbk", "latin-1"])
def test_encodings_that_a_report_declares_are_read(encoding: str) -> None:
    name = "é" if encoding == "latin-1" else "测试"
    text = f"<?xml version='1.0' encoding='{encoding}'?><testsuite name='s'><testcase name='{name}'><failure>no</failure></testcase></testsuite>"  # noqa: E501
    assert read_run(text.encode(encoding)).failures[0].test == f"s::{name}"


def test_a_report_in_utf_8_that_declares_utf_16_is_read() -> None:
    text = "<?xml version='1.0' encoding='utf-16'?><testsuite name='s'><testcase name='测试'><failure>no</failure></testcase></testsuite>"  # noqa: E501
    assert read_run(text.encode()).failures[0].test == "s::测试"


def test_many_tests_that_pass_take_little_room() -> None:
    case = b"<testcase classname='c' name='test_%d'/>"
    run = read_run(
        b"<testsuites><testsuite>" + b"".join(case % n for n in range(20_000)) + b"</testsuite></testsuites>"
    )
    assert run.cases == len(decode_keys(run.passed)) == 20_000
    assert len(run.model_dump_json()) < 240_000


def test_a_message_of_megabytes_is_cut() -> None:
    text = b"<testcase name='a'><failure>" + b"x" * 5_000_000 + b"</failure></testcase>"
    run = read_run(wrap("@").replace(b"@", text))
    assert len(run.model_dump_json()) < 10_000


def report(**changed: object) -> bytes:
    call = {"outcome": "failed", "longrepr": write_python_failure("ValueError: no", "cart.py:add", "test_b")}
    tests: list[dict[str, object]] = [
        {"nodeid": "tests/test_a.py::test_a", "outcome": "passed", "call": {"outcome": "passed"}},
        {"nodeid": "tests/test_a.py::test_b", "outcome": "failed", "setup": {"outcome": "passed"}, "call": call},
        {"nodeid": "tests/test_a.py::test_c", "outcome": "error", "setup": call},
        {"nodeid": "tests/test_a.py::test_d", "outcome": "error", "call": {"outcome": "passed"}, "teardown": call},
        {"nodeid": "tests/test_a.py::test_e", "outcome": "xfailed", "call": {"outcome": "skipped"}},
        {"nodeid": "tests/test_a.py::test_f", "outcome": "xpassed", "call": {"outcome": "passed"}},
        {"nodeid": "tests/test_a.py::test_g", "outcome": "skipped",
         "setup": {"outcome": "skipped", "longrepr": "('a.py', 3, 'Skipped: no network')"}},
    ]  # fmt: skip
    whole = {"created": 1_700_000_000.5, "root": "/p", "exitcode": 1, "summary": {}, "tests": tests} | changed
    return json.dumps(whole).encode()


def test_pytest_json_is_read_with_its_stages() -> None:
    run = read_pytest_json("run.json", BytesIO(report()))
    assert run.started == "2023-11-14T22:13:20+00:00"
    assert count(run) == (2, 3, 1)
    assert [failure.stage for failure in run.failures] == ["call", "setup", "teardown"]
    assert run.skipped[0].reason == "no network"


def test_a_collector_that_failed_is_a_failure_of_the_collection() -> None:
    broken = {
        "nodeid": "tests/test_z.py",
        "outcome": "failed",
        "longrepr": "E   ModuleNotFoundError: No module named 'x'",
    }
    run = read_pytest_json("run.json", BytesIO(report(collectors=[{"outcome": "passed"}, broken])))
    assert [failure.stage for failure in run.failures].count("collection") == 1


@pytest.mark.parametrize("odd", [None, 7, [], {}, [{}], {"outcome": []}, {"outcome": "failed", "crash": []}])
def test_odd_values_in_a_report_of_pytest_are_passed_over(odd: object) -> None:
    tests = [odd, {"nodeid": odd, "outcome": odd, "call": odd}, {"outcome": "failed", "call": odd, "setup": odd}]
    assert read_pytest_json("run.json", BytesIO(report(created=odd, tests=tests, collectors=[odd]))).cases


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"tests": [', b'{"tests": [1,2], "a": 3}', b"[" * 200_000])
def test_other_json_is_an_error_of_the_file(data: bytes) -> None:
    with pytest.raises(UnreadableRunError):
        read_pytest_json("run.json", BytesIO(data))


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"<testsuites>", b"<testsuite><testcase name='a'><failure>", b"{"])
)
def test_any_bytes_are_read_or_refused(data: bytes, before: bytes) -> None:
    readers: list[Callable[[str, BytesIO], TestRun]] = [read_junit, read_pytest_json]
    for read in readers:
        try:
            run = read("file", BytesIO(before + data))
        except UnreadableRunError:
            continue
        assert run.cases >= len(run.failures) >= 0


def test_two_reports_of_a_run_are_one_run() -> None:
    texts = {CASES[0]: write_python_failure("ValueError: no", "cart.py:add", CASES[0])}
    tests = [{"nodeid": f"tests/test_shop.py::{case}", "outcome": "failed" if case in texts else "passed",
              "call": {"outcome": "failed", "longrepr": texts.get(case, "")}} for case in CASES]  # fmt: skip
    both = [read_run(write_junit(texts), "a/run01.junit.xml"),
            read_pytest_json("a/run01.report.json", BytesIO(report(tests=tests)))]  # fmt: skip
    joined = join_runs(both, [ListedRun(run="run01", commit="abc", started="2026-01-01T00:00:00Z")])
    assert [(run.run, run.commit, len(run.failures), run.cases) for run in joined.runs] == [("run01", "abc", 1, 30)]
    assert not joined.errors


def test_a_run_id_with_other_results_is_an_error_of_its_file() -> None:
    listed = read_run_list('[{"run": "run01", "commit": "abc"}]')
    texts = {CASES[0]: write_python_failure("ValueError: no", "cart.py:add", CASES[0])}
    runs = [read_run(write_junit({}), "a/run01.xml"), read_run(write_junit(texts), "b/run01.xml")]
    findings = learn_from_runs(runs, TestSettings(), listed)
    assert list(findings.errors) == ["b/run01.xml"]
    assert len(findings.runs) == 1


def test_a_run_tells_its_commit_and_branch_by_properties_or_by_its_name() -> None:
    properties = (
        "<properties><property name='git.commit' value='0123abc'/><property name='branch' value='main'/></properties>"
    )
    run = read_run(wrap(properties + "<testcase name='a'/>"))
    assert (run.commit, run.branch) == ("0123abc", "main")
    assert read_run(wrap("<testcase name='a'/>"), "12_581f284.report.xml").commit == "581f284"
    assert read_run(wrap("<testcase name='a'/>"), "20260301_123456.xml").commit == ""


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"commit": "a"}]', "[" * 100_000])
def test_a_broken_run_list_is_an_error_of_the_file(text: str) -> None:
    with pytest.raises(UnreadableRunError):
        read_run_list(text)


def test_folders_and_hashes_in_the_name_of_a_file_are_no_secrets() -> None:
    name = "a1/pytest_json/open2soft/17_13f9ae6"
    run = read_run(wrap("<testcase name='a'/>"), f"{name}.report.xml")
    assert (run.run, run.commit, run.files) == (name, "13f9ae6", (f"{name}.report.xml",))
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert read_run(wrap("<testcase name='a'/>"), f"runs/{commit}.xml").commit == commit
    assert "jane" not in read_run(wrap("<testcase name='a'/>"), "C:\\Users\\jane\\r.xml").model_dump_json()
