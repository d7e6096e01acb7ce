"""Statistics of a workbook's sheets, given as {"file"?, "sheet"?, "header_row"?, "group_by"?, "measure"?}."""

import csv
import io
from collections.abc import Mapping, Sequence

from columns import ROW_FIELDS, Cell, CellError, Summary, Table, flat, group, markdown_table, shown, summarize
from layout import SheetTable, find_table
from skillio import Arguments, SkillError, input_path, integer_of, run, text_of, write_artifact
from workbook import Sheet, read_workbook

LAST_ROW = 1_048_576


def analyse(arguments: Arguments) -> dict[str, object]:
    path = input_path(text_of(arguments, "file") if "file" in arguments else None)
    sheets = chosen(read_workbook(path), arguments)
    found = [sheet_summary(sheet, arguments) for sheet in sheets]
    if "group_by" in arguments and not any("groups" in summary for summary in found):
        raise SkillError(f"no sheet has both columns {arguments['group_by']!r} and {arguments.get('measure')!r}")
    write_artifact("summary.csv", "\ufeff" + csv_report(found))  # with the mark, Excel reads it as UTF-8
    write_artifact("summary.md", markdown_report(path.name, found))
    return {"file": path.name, "sheets": found, "artifacts": ["summary.csv", "summary.md"]}


def chosen(sheets: Sequence[Sheet], arguments: Arguments) -> Sequence[Sheet]:
    if "sheet" not in arguments:
        return sheets
    wanted = text_of(arguments, "sheet")
    matching = [sheet for sheet in sheets if sheet.name == wanted]
    if not matching:
        raise SkillError(f"there is no sheet {wanted!r}; sheets: {', '.join(sheet.name for sheet in sheets)}")
    return matching


def sheet_summary(sheet: Sheet, arguments: Arguments) -> Summary:
    header_row = integer_of(arguments, "header_row", 1, 1, LAST_ROW) if "header_row" in arguments else None
    found = find_table(sheet, header_row)
    if found is None:
        return {"sheet": sheet.name, "rows": 0, "columns": []}
    summary: Summary = {
        "sheet": sheet.name,
        "rows": len(found.table.rows),
        "header_row": found.header_row,
        "columns": [summarize(name, column_cells(found.table, name)) for name in found.table.header],
    }
    if sheet.formulas_without_value:
        summary["formulas_without_value"] = sheet.formulas_without_value
    return summary | total_of(found) | groups_of(found.table, arguments)


def column_cells(table: Table, name: str) -> list[Cell | CellError]:
    position = table.header.index(name)
    return [row[position] for row in table.rows]


def total_of(found: SheetTable) -> Summary:
    if found.total_row is None:
        return {}
    return {"total_row": {name: shown(cell) for name, cell in zip(found.table.header, found.total_row, strict=True)}}


def groups_of(table: Table, arguments: Arguments) -> Summary:
    if "group_by" not in arguments and "measure" not in arguments:
        return {}
    by, measure = text_of(arguments, "group_by"), text_of(arguments, "measure")
    if not {by, measure} <= set(table.header):
        return {}
    return {"group_by": by, "measure": measure, "groups": group(column_cells(table, by), column_cells(table, measure))}


def csv_report(found: Sequence[Summary]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["sheet", "name", *ROW_FIELDS])
    writer.writeheader()
    for summary in found:
        writer.writerows({"sheet": summary["sheet"], **flat(column)} for column in entries(summary, "columns"))
    return out.getvalue()


def markdown_report(name: str, found: Sequence[Summary]) -> str:
    return f"# {name}\n" + "".join(sheet_report(summary) for summary in found)


def sheet_report(summary: Summary) -> str:
    rows = [list(flat(column).values()) for column in entries(summary, "columns")]
    text = f"\n## {summary['sheet']}\n\n{summary['rows']} 行\n\n" + markdown_table(["name", *ROW_FIELDS], rows)
    if "groups" in summary:
        groups = [list(entry.values()) for entry in entries(summary, "groups")]
        text += f"\n### {summary['measure']}（按{summary['group_by']}）\n\n"
        text += markdown_table(["key", "count", "sum", "mean", "min", "max"], groups)
    return text


def entries(summary: Mapping[str, object], key: str) -> list[Summary]:
    found = summary.get(key, [])
    return found if isinstance(found, list) else []


if __name__ == "__main__":
    run(analyse)
