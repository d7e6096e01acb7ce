"""The suite is whole: every payload has a case, every case a row in the page of results."""

from collections.abc import Iterator
from pathlib import Path

from skillbus.sandbox.domain.run.spec import IsolationLevel

from .harness import HELPERS, PAYLOADS, WAYS
from .manifest import ABUSES, BY_NAME

PAGE = Path(__file__).parents[2] / "docs" / "sandbox-abuse.md"


def test_every_payload_has_a_case_and_every_case_a_payload() -> None:
    there = {path.name for path in PAYLOADS.iterdir() if path.is_file()} - set(HELPERS)
    assert there == {abuse.payload for abuse in ABUSES}


def test_cases_have_names_of_their_own() -> None:
    assert len(BY_NAME) == len(ABUSES)


def test_each_case_says_what_is_seen_when_it_fails_and_changes_something_for_it() -> None:
    silent = [one.name for one in ABUSES if not one.weakening.shows]
    unchanged = [one.name for one in ABUSES if not (one.weakening.steps or one.weakening.limits or one.weakening.argv)]
    behind_none = [one.name for one in ABUSES if one.behind is not None and one.behind not in BY_NAME]
    assert (silent, unchanged, behind_none) == ([], [], [])


def test_nothing_is_run_without_isolation() -> None:
    assert {way.level for way in WAYS} == {IsolationLevel.FULL, IsolationLevel.FILTERED, IsolationLevel.CONTAINER}


def rows() -> Iterator[list[str]]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| case")):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_page_of_results_has_every_case_and_no_other() -> None:
    assert [(row[0], row[1]) for row in rows()] == [(abuse.name, abuse.must) for abuse in ABUSES]


def test_the_page_of_results_has_none_that_did_not_hold() -> None:
    assert {cell for row in rows() for cell in row[2:-1] if cell != "held" and not cell.startswith("not here")} == set()
