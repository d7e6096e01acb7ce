"""Causes, flaky tests, fixes and faults of the environment, from runs of known truth."""

from itertools import permutations

import pytest

from skillbus.contracts.learner.learned import LearnedItem, LearnedKind
from skillbus.learning.redaction import redact_text
from skillbus.learning.test_runs.learning import RunFindings, learn_from_runs
from skillbus.learning.test_runs.settings import TestSettings
from skillbus.learning.test_runs.values import TestRun

from .run_samples import CASES, learn_from_reports, read_run, write_assertion, write_junit, write_python_failure

CLEAN = write_junit({})
USER = "jane"


def fail(cases: tuple[str, ...], error: str, place: str = "cart.py:add", cause: str = "") -> dict[str, str]:
    return {case: write_python_failure(error, place, case, cause=cause) for case in cases}


def outline(findings: RunFindings) -> list[tuple[str, int, str | None, tuple[str, ...]]]:
    return sorted((item.kind.value, len(item.tests), item.first_failed, item.fixed_by) for item in findings.items)


def only(findings: RunFindings) -> LearnedItem:
    [item] = findings.items
    return item


def test_a_clean_history_gives_no_item() -> None:
    assert not learn_from_reports(("a", CLEAN), ("b", CLEAN)).items


@pytest.mark.spec("knowledge-base.md § 从测试失败中学习")
def test_a_regression_names_its_innermost_cause_and_the_change_that_fixed_it() -> None:
    broken = write_junit(fail(CASES[:6], "shop.errors.CartError: cannot add", cause="KeyError: 'price'"))
    item = only(learn_from_reports(("a", CLEAN), ("b", broken), ("b", broken), ("c", CLEAN)))
    assert (item.kind, item.type) == (LearnedKind.REGRESSION, "test_experience")
    assert item.title == "KeyError in shop.cart:add (6 tests)"
    assert (item.scope, item.first_failed, item.fixed_by, item.seen) == ("module:shop.cart", "b", ("c",), 2)
    assert item.tests == tuple(sorted(f"tests/test_shop.py::{case}" for case in CASES[:6]))
    assert "fixed between b and c" in item.content
    for quote in item.evidence:
        assert quote.quote in redact_text(broken.decode()).splitlines()[quote.line - 1]


def test_two_causes_of_one_change_are_two_items_with_fixes_of_their_own() -> None:
    first, second = fail(CASES[:5], "ValueError: no stock", "stock.py:take"), fail(CASES[5:9], "TypeError: bad total")
    findings = learn_from_reports(
        ("a", CLEAN), ("b", write_junit(first | second)), ("c", write_junit(second)), ("d", CLEAN)
    )
    assert outline(findings) == [("regression", 4, "b", ("d",)), ("regression", 5, "b", ("c",))]


def test_two_errors_that_one_change_brought_into_one_file_are_one_item() -> None:
    both = fail(CASES[:8], "InvalidKey: no key") | fail(
        CASES[8:10], "AttributeError: 'NoneType' has no x", "cart.py:key"
    )
    assert outline(learn_from_reports(("a", CLEAN), ("b", write_junit(both)))) == [("regression", 10, "b", ())]


def test_messages_that_differ_in_numbers_and_addresses_are_one_cause() -> None:
    failures = {
        case: write_python_failure(f"ValueError: order {place * 37} at 0x7f{place:010x} is void", "order.py:load", case)
        for place, case in enumerate(CASES[:7])
    }
    assert outline(learn_from_reports(("a", CLEAN), ("b", write_junit(failures)))) == [("regression", 7, "b", ())]


def test_a_test_that_fails_with_another_cause_is_masked_and_not_fixed() -> None:
    old = fail(CASES[:4], "ValueError: no stock", "stock.py:take")
    new = fail(CASES[:20], "InvalidKey: no key", "keys.py:load")
    masked = learn_from_reports(("a", CLEAN), ("b", write_junit(old)), ("c", write_junit(new)))
    assert outline(masked) == [("regression", 4, "b", ()), ("regression", 20, "c", ())]
    again = learn_from_reports(
        ("a", CLEAN), ("b", write_junit(old)), ("c", write_junit(new)), ("d", write_junit(old)), ("e", CLEAN)
    )
    assert outline(again) == [("regression", 4, "b", ("e",)), ("regression", 20, "c", ("d",))]


def test_a_test_that_passes_and_fails_on_one_commit_is_flaky_and_no_regression() -> None:
    flaked = write_junit(fail(CASES[3:4], "ConnectionResetError: [Errno 104] reset", "net.py:send"))
    item = only(learn_from_reports(("a", CLEAN), ("b", CLEAN), ("b", flaked), ("c", CLEAN)))
    assert (item.kind, item.tests, item.fixed_by) == (LearnedKind.FLAKY, (f"tests/test_shop.py::{CASES[3]}",), ())


def test_many_tests_that_time_out_once_are_one_flaky_item() -> None:
    late = {
        case: write_python_failure(f"TimeoutError: no answer in {place + 5}.{place} s", "net.py:wait", case)
        for place, case in enumerate(CASES[:22])
    }
    findings = learn_from_reports(("a", CLEAN), ("b", write_junit(late)), ("b", CLEAN))
    assert outline(findings) == [("flaky", 22, "b", ())]


def test_a_flaky_test_that_hides_a_broken_one_leaves_the_regression_as_it_was() -> None:
    broken = fail(CASES[:6], "ValueError: no stock", "stock.py:take")
    reset = "ConnectionResetError: [Errno 104] reset"
    flaked = broken | fail((CASES[0], CASES[9]), reset, "net.py:send")
    findings = learn_from_reports(
        ("a", CLEAN), ("b", write_junit(broken)), ("b", write_junit(flaked)), ("b", write_junit(broken)), ("c", CLEAN)
    )
    assert outline(findings) == [("flaky", 1, "b", ()), ("regression", 6, "b", ("c",))]


def test_a_module_that_is_missing_is_the_environments_fault_and_its_return_fixes_nothing() -> None:
    text = "ImportError while importing\nTraceback:\ntests/test_shop.py:3: in &lt;module&gt;\n    import toolz\n"
    failed = f"{text}E   ModuleNotFoundError: No module named 'toolz'"
    report = (
        '<testsuites><testsuite name="pytest"><testcase classname="" name="tests.test_shop">'
        f'<error message="collection failure">{failed}</error></testcase></testsuite></testsuites>'
    ).encode()
    findings = learn_from_reports(("a", CLEAN), ("a", report), ("a", CLEAN))
    item = only(findings)
    assert (item.kind, item.type, item.fixed_by) == (LearnedKind.ENVIRONMENT, "project_config", ())
    assert item.title.startswith("Tests need toolz")
    assert findings.set_aside == ("run01",)


def test_a_module_of_the_project_that_is_missing_is_a_regression() -> None:
    text = "tests/test_shop.py:3: in &lt;module&gt;\nE   ModuleNotFoundError: No module named 'shop.cart'"
    frame = "src/shop/__init__.py:2: in &lt;module&gt;\n    from shop import cart\n"
    report = (
        '<testsuites><testsuite name="pytest"><testcase classname="" name="tests.test_shop">'
        f'<error message="collection failure">{frame}{text}</error></testcase></testsuite></testsuites>'
    ).encode()
    item = only(learn_from_reports(("a", CLEAN), ("b", report), ("c", CLEAN)))
    assert (item.kind, item.first_failed, item.fixed_by) == (LearnedKind.REGRESSION, "b", ("c",))


def test_a_run_in_which_nearly_all_tests_fail_is_set_aside() -> None:
    down = {
        case: write_python_failure(f"OSError: no route to {place}", f"net{place % 3}.py:open", case)
        for place, case in enumerate(CASES)
    }
    findings = learn_from_reports(("a", CLEAN), ("b", write_junit(down)), ("c", CLEAN))
    assert findings.set_aside == ("run01",)
    assert {item.kind for item in findings.items} == {LearnedKind.ENVIRONMENT}


def test_many_skips_for_one_reason_are_the_environments_fault() -> None:
    storm = write_junit({}, skipped=dict.fromkeys(CASES[:25], "Requires cryptography"))
    broken = fail(CASES[:2], "ValueError: no stock")
    item, regression = learn_from_reports(("a", write_junit(broken)), ("b", storm), ("c", write_junit(broken))).items
    assert (item.kind, item.seen) == (LearnedKind.ENVIRONMENT, 1)
    assert "Requires cryptography" in item.title
    assert regression.fixed_by == ()


def test_skipped_and_missing_tests_are_not_fixed() -> None:
    broken = write_junit(fail(CASES[:2], "ValueError: no stock"))
    without = write_junit({}, cases=CASES[1:], skipped={CASES[1]: "later"})
    item = only(learn_from_reports(("a", CLEAN), ("b", broken), ("c", without)))
    assert (item.kind, item.fixed_by) == (LearnedKind.REGRESSION, ())


def test_tests_that_never_passed_were_broken_before() -> None:
    broken = write_junit(fail(CASES[:2], "ValueError: no stock"))
    item = only(learn_from_reports(("a", broken), ("b", broken)))
    assert (item.kind, item.seen, item.first_failed) == (LearnedKind.PREEXISTING, 2, "a")


def test_the_detail_of_a_response_tells_the_causes_behind_one_assertion_apart() -> None:
    details = ("Agent 'a1' has no model", "database is locked", "Agent 'a2' has no model", "quota exceeded")
    failures = {
        f"test_{place}": write_assertion(
            "assert response.status_code == 200",
            ["AssertionError: Response: " + f'{{"detail": "{detail}"}}', "assert 500 == 200"],
            f"test_{place}",
        )
        for place, detail in enumerate(details)
    }
    findings = learn_from_reports(("a", write_junit(failures, cases=())))
    assert sorted(len(item.tests) for item in findings.items) == [1, 1, 2]


def test_bare_assertions_of_different_tests_are_different_causes() -> None:
    failures = {case: write_assertion("assert False", ["assert False"], case) for case in CASES[:2]}
    assert len(learn_from_reports(("a", CLEAN), ("b", write_junit(failures))).items) == 2


def test_the_same_runs_in_any_order_and_from_store_give_the_same_items() -> None:
    broken = write_junit(fail(CASES[:3], "ValueError: no stock"))
    first = learn_from_reports(("a", CLEAN), ("b", broken), ("c", CLEAN))
    stored = [TestRun.model_validate_json(run.model_dump_json()) for run in first.runs]
    assert all(learn_from_runs(order, TestSettings()).items == first.items for order in permutations(stored))
    assert learn_from_runs([*stored, *stored], TestSettings()).items == first.items


def test_a_new_run_keeps_the_identity_of_what_was_known() -> None:
    broken = write_junit(fail(CASES[:3], "ValueError: no stock"))
    before = only(learn_from_reports(("a", CLEAN), ("b", broken))).statement
    still = only(learn_from_reports(("a", CLEAN), ("b", broken), ("c", broken))).statement
    fixed = only(learn_from_reports(("a", CLEAN), ("b", broken), ("c", CLEAN))).statement
    assert still == before
    assert (fixed.subject, fixed.predicate) == (before.subject, before.predicate)
    assert fixed.value != before.value


def test_names_of_users_and_secrets_are_in_no_item() -> None:
    text = write_assertion(
        "assert ok", ["AssertionError: token=tk.0f8e7d6c5b4a3928 for jane.doe@example.com"], "test_x"
    )
    report = write_junit({"test_x[C:\\Users\\jane\\data]": text.replace("tests/", f"/Users/{USER}/shop/tests/")})
    run = read_run(report, f"/Users/{USER}/run.xml")
    findings = learn_from_runs([run], TestSettings())
    stored = run.model_dump_json() + only(findings).model_dump_json()
    assert not [secret for secret in ("jane", "tk.0f8e", "example.com") if secret in stored]


def test_failures_beside_many_skips_are_the_environments_fault_too() -> None:
    lost = fail(CASES[:2], "NotImplementedError: RS256 is not there", "keys.py:load")
    storm = write_junit(lost, skipped=dict.fromkeys(CASES[5:], "Requires cryptography"))
    findings = learn_from_reports(("a", CLEAN), ("a", storm), ("b", CLEAN))
    assert [item.kind for item in findings.items] == [LearnedKind.ENVIRONMENT] * 2


def test_a_module_that_only_some_tests_miss_is_the_environments_fault() -> None:
    missing = write_junit(fail(CASES[:2], "ModuleNotFoundError: No module named 'toolz'"))
    item = only(learn_from_reports(("a", CLEAN), ("b", missing), ("c", CLEAN)))
    assert (item.kind, item.fixed_by) == (LearnedKind.ENVIRONMENT, ())


def test_fields_that_a_response_refuses_are_causes_of_their_own() -> None:
    failures = {
        f"test_{field}": write_assertion(
            "assert response.status_code == 201",
            ['AssertionError: {"detail": [{"loc": ["body", "' + field + '"], "msg": "field required"}]}'],
            f"test_{field}",
        )
        for field in ("name", "size")
    }
    assert len(learn_from_reports(("a", write_junit(failures, cases=()))).items) == 2
