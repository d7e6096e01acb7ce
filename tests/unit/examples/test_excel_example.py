"""What excel-analysis reads from workbooks: written by openpyxl, and by hand where openpyxl cannot."""

import csv
import io
import zipfile
from collections.abc import Callable
from datetime import datetime, time

import pytest
from openpyxl import Workbook
from openpyxl.worksheet.worksheet import Worksheet

from .runner import SkillRunner

STRICT = "http://purl.oclc.org/ooxml"
RELATIONS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>"""
STRICT_PARTS = {
    "_rels/.rels": RELATIONS.format(
        f'<Relationship Id="r1" Type="{STRICT}/officeDocument/relationships/officeDocument" Target="/book/main.xml"/>'
    ),
    "book/_rels/main.xml.rels": RELATIONS.format(
        f'<Relationship Id="a" Type="{STRICT}/officeDocument/relationships/worksheet" Target="s.xml"/>'
        f'<Relationship Id="b" Type="{STRICT}/officeDocument/relationships/sharedStrings" Target="strings.xml"/>'
    ),
    "book/main.xml": f'<workbook xmlns="{STRICT}/spreadsheetml/main" xmlns:r="{STRICT}/officeDocument/relationships">'
    '<workbookPr date1904="1"/><sheets><sheet name="S" sheetId="1" r:id="a"/></sheets></workbook>',
    "book/strings.xml": f'<sst xmlns="{STRICT}/spreadsheetml/main">'
    '<si><r><t>名</t></r><r><t>称</t></r><rPh sb="0" eb="1"><t>ming</t></rPh></si></sst>',
    "book/s.xml": f'<worksheet xmlns="{STRICT}/spreadsheetml/main"><sheetData>'
    '<row><c t="s"><v>0</v></c><c t="inlineStr"><is><t>值</t></is></c><c t="inlineStr"><is><t>日</t></is></c></row>'
    '<row><c t="str"><f>A</f><v>甲</v></c><c><v>1.5</v></c><c t="d"><v>2026-09-30</v></c></row>'
    '<row><c t="inlineStr"><is><t>乙</t></is></c><c><f>1+1</f></c><c t="e"><v>#DIV/0!</v></c></row>'
    "</sheetData></worksheet>",
}


def give_book(skills: SkillRunner, fill: Callable[[Worksheet], None]) -> None:
    book = Workbook()
    fill(book.worksheets[0])
    book.save(skills.folder / "in" / "book.xlsx")


def give_parts(skills: SkillRunner, parts: dict[str, str]) -> None:
    with zipfile.ZipFile(skills.folder / "in" / "book.xlsx", "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, text)


def test_the_report_is_read_with_its_title_merged_headers_total_and_groups(skills: SkillRunner) -> None:
    skills.give_data("report.xlsx")
    outcome = skills.run("excel-analysis", {"group_by": "地区", "measure": "金额"})
    assert [outcome.value("sheets", 0, "columns", position, "kind") for position in range(6)] == [
        *("date", "text", "text", "number", "number", "boolean"),
    ]
    assert outcome.value("sheets", 0, "rows") == 60
    assert outcome.value("sheets", 0, "header_row") == 2
    assert outcome.value("sheets", 0, "columns", 4, "sum") == 581577.8
    assert outcome.value("sheets", 0, "columns", 4, "missing") == 1
    assert outcome.value("sheets", 0, "total_row", "金额") == "581577.8"
    assert outcome.value("sheets", 0, "groups", 0) == {
        "key": "华北",
        "count": 15,
        "sum": 162465.9,
        "mean": 10831.06,
        "min": 199.9,
        "max": 41993,
    }
    assert outcome.value("sheets", 1, "columns", 1, "name") == "人数 / 计划"
    assert outcome.value("sheets", 2) == {"sheet": "空表", "rows": 0, "columns": []}


def test_the_summary_is_kept_as_csv_and_markdown(skills: SkillRunner) -> None:
    skills.give_data("report.xlsx")
    outcome = skills.run("excel-analysis", {"sheet": "人员"})
    rows = list(csv.DictReader(io.StringIO(outcome.artifacts["summary.csv"].decode("utf-8-sig"))))
    assert [row["name"] for row in rows] == ["部门", "人数 / 计划", "人数 / 实际", "预算（万元）"]
    assert rows[3]["mean"] == "425.25"
    assert "## 人员" in outcome.artifacts["summary.md"].decode()


def test_dates_times_errors_and_formulas_without_a_value_are_told_apart(skills: SkillRunner) -> None:
    def fill(sheet: Worksheet) -> None:
        sheet.append(["when", "clock", "broken", "sum"])
        sheet.append([datetime.fromisoformat("2024-02-29T13:30"), time(6, 0), "#N/A", "=1+1"])
        sheet.append([datetime.fromisoformat("1999-12-31"), time(18, 0), 5, "=2+2"])

    give_book(skills, fill)
    outcome = skills.run("excel-analysis", {})
    assert outcome.value("sheets", 0, "columns", 0, "max") == "2024-02-29 13:30:00"
    assert outcome.value("sheets", 0, "columns", 1, "kind") == "date"
    assert outcome.value("sheets", 0, "columns", 2, "errors") == 1
    assert outcome.value("sheets", 0, "columns", 3, "kind") == "empty"
    assert outcome.value("sheets", 0, "formulas_without_value") == 2


def test_a_strict_workbook_with_other_part_names_is_read(skills: SkillRunner) -> None:
    give_parts(skills, STRICT_PARTS)
    outcome = skills.run("excel-analysis", {})
    assert [outcome.value("sheets", 0, "columns", place, "name") for place in range(3)] == ["名称", "值", "日"]
    assert outcome.value("sheets", 0, "columns", 0, "distinct") == 2
    assert outcome.value("sheets", 0, "columns", 1, "sum") == 1.5
    assert outcome.value("sheets", 0, "columns", 2, "min") == "2026-09-30"
    assert outcome.value("sheets", 0, "formulas_without_value") == 1


def test_a_cell_far_below_takes_no_memory_for_the_rows_between(skills: SkillRunner) -> None:
    def fill(sheet: Worksheet) -> None:
        sheet.append(["a", "b"])
        sheet.cell(1_048_576, 2, 7)

    give_book(skills, fill)
    outcome = skills.run("excel-analysis", {})
    assert (outcome.value("sheets", 0, "rows"), outcome.value("sheets", 0, "columns", 1, "sum")) == (1, 7)


def test_a_large_sheet_is_summed_exactly(skills: SkillRunner) -> None:
    def fill(sheet: Worksheet) -> None:
        sheet.append(["n", "tenth"])
        for number in range(5000):
            sheet.append([number, 0.1])

    give_book(skills, fill)
    outcome = skills.run("excel-analysis", {})
    assert outcome.value("sheets", 0, "columns", 0, "sum") == 12_497_500
    assert outcome.value("sheets", 0, "columns", 1, "sum") == 500


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"sheet": "无"}, "销售, 人员, 空表"),
        ({"header_row": 500}, "below the last row"),
        ({"header_row": 0}, "between"),
        ({"group_by": "地区"}, "'measure' is missing"),
        ({"group_by": "地区", "measure": "无"}, "no sheet has both columns"),
    ],
)
def test_arguments_that_do_not_fit_the_workbook_are_refused(
    args: dict[str, object], reason: str, skills: SkillRunner
) -> None:
    skills.give_data("report.xlsx")
    outcome = skills.run("excel-analysis", args)
    assert outcome.status == 2
    assert reason in outcome.stderr


def damaged_parts(part: str, text: str) -> dict[str, str]:
    return STRICT_PARTS | {part: text}


@pytest.mark.parametrize(
    "parts",
    [
        {"hello.txt": "no workbook"},
        damaged_parts("book/s.xml", "<worksheet><sheetData>"),
        damaged_parts("book/strings.xml", '<sst xmlns="x"/>'),
        damaged_parts("book/s.xml", '<!DOCTYPE a [<!ENTITY b "c">]><worksheet/>'),
        damaged_parts(
            "book/s.xml", '<worksheet><sheetData><row><c r="ZZZZ1"><v>1</v></c></row></sheetData></worksheet>'
        ),
        damaged_parts("book/s.xml", '<worksheet><sheetData><row r="x"><c><v>1</v></c></row></sheetData></worksheet>'),
        damaged_parts("book/s.xml", '<worksheet><sheetData><row><c t="s"><v>x</v></c></row></sheetData></worksheet>'),
    ],
    ids=["other zip", "cut XML", "string absent", "document type", "column", "row", "string number"],
)
def test_a_damaged_workbook_is_refused_with_a_reason(parts: dict[str, str], skills: SkillRunner) -> None:
    give_parts(skills, parts)
    outcome = skills.run("excel-analysis", {})
    assert outcome.status == 2, outcome.stderr
    assert outcome.stderr.startswith("error: ")


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xd0\xcf\x11\xe0old", b"PK\x03\x04cut"])
def test_a_file_that_is_no_workbook_is_refused(content: bytes, skills: SkillRunner) -> None:
    skills.give("book.xlsx", content)
    outcome = skills.run("excel-analysis", {})
    assert outcome.status == 2
    assert "book.xlsx is" in outcome.stderr
