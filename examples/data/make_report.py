"""Makes report.xlsx: an office workbook with a title, merged headers, dates, a closing total and an empty sheet.

Run with openpyxl installed: python examples/data/make_report.py
"""

from datetime import date, timedelta
from pathlib import Path

from openpyxl import Workbook
from openpyxl.worksheet.worksheet import Worksheet

REGIONS = ("华东", "华南", "华北", "西南")
PRODUCTS = ("笔记本电脑", "显示器", "键盘")
PRICES = (5999.0, 1299.5, 199.9)


def fill_sales(sheet: Worksheet) -> None:
    sheet.title = "销售"
    sheet.append(["2026年第一季度销售报表"])
    sheet.merge_cells("A1:F1")
    sheet.append(["日期", "地区", "产品", "数量", "金额", "已付款"])
    total, pieces = 0.0, 0
    for index in range(60):
        product, quantity = index % len(PRODUCTS), index % 7 + 1
        amount = None if index == 13 else round(PRICES[product] * quantity, 2)
        total += amount or 0
        pieces += quantity
        day = date(2026, 1, 1) + timedelta(days=index * 3 // 2)
        sheet.append([day, REGIONS[index % 4], PRODUCTS[product], quantity, amount, index % 5 != 0])
    sheet.append(["合计", None, None, pieces, round(total, 2), None])


def fill_staff(sheet: Worksheet) -> None:
    sheet.append(["部门", "人数", None, "预算（万元）"])
    sheet.append([None, "计划", "实际", None])
    sheet.merge_cells("A1:A2")
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("D1:D2")
    for row in (["研发", 42, 40, 860.5], ["市场", 15, 16, 320], ["行政", 8, 8, 95.25]):
        sheet.append(row)


def main() -> None:
    book = Workbook()
    fill_sales(book.worksheets[0])
    fill_staff(book.create_sheet("人员"))
    book.create_sheet("空表")
    book.save(Path(__file__).with_name("report.xlsx"))


if __name__ == "__main__":
    main()
