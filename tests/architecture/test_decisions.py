"""Decisions are listed, numbered without gaps, and those that code cites exist."""

import re

from .tree import ROOT, named, product_modules

FOLDER = ROOT / "docs/adr"
DECISIONS = {file.name[:4]: file for file in sorted(FOLDER.glob("[0-9]*.md"))}


def test_numbers_have_no_gaps_and_titles_carry_them() -> None:
    assert list(DECISIONS) == [f"{number:04}" for number in range(1, len(DECISIONS) + 1)]
    for number, file in DECISIONS.items():
        assert file.read_text(encoding="utf-8").startswith(f"# {number} – "), named(file)


def test_the_index_lists_every_decision_by_its_title() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    for number, file in DECISIONS.items():
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {number} – ")
        assert f"| [{number}]({file.name}) | {title} |" in index, f"list {file.name} in docs/adr/README.md"


def test_decisions_that_code_cites_exist() -> None:
    cited = {
        (number, named(file))
        for file in product_modules()
        for number in re.findall(r"\bADR (\d{4})\b", file.read_text(encoding="utf-8"))
    }
    assert {(number, where) for number, where in cited if number not in DECISIONS} == set()
