from pathlib import Path

import pytest

from ..skips import AllowedSkip, is_allowed, load_allowed_skips

LIVE = AllowedSkip(tests="tests/live/*", reason="no key")


@pytest.mark.parametrize(
    ("test", "reason", "allowed"),
    [
        ("tests/live/test_a.py::test_b", "no key is set", True),
        ("tests/live/test_a.py::test_b", "there is no key", False),
        ("tests/unit/test_a.py::test_b", "no key is set", False),
    ],
)
def test_a_skip_is_allowed_by_its_test_and_the_start_of_its_reason(test: str, reason: str, allowed: bool) -> None:
    assert is_allowed(test, reason, [LIVE]) is allowed


def test_a_missing_tool_is_no_allowed_skip() -> None:
    listed = load_allowed_skips()
    assert listed
    assert not is_allowed("tests/integration/learner/test_items.py::test_a", "no PostgreSQL: install it", listed)


def test_a_session_in_ci_fails_on_a_skip_that_is_not_listed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tests.skips import check_skips
        def pytest_sessionfinish(session):
            check_skips(session)
        """
    )
    pytester.makepyfile("import pytest\ndef test_a():\n    pytest.skip('the tool is missing')\n")
    monkeypatch.setenv("CI", "true")
    assert pytester.runpytest_inprocess("-p", "no:asyncio").ret == pytest.ExitCode.TESTS_FAILED
    monkeypatch.setenv("CI", "false")
    assert pytester.runpytest_inprocess("-p", "no:asyncio").ret == pytest.ExitCode.OK
