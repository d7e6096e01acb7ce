"""Reads .xlsx workbooks (ECMA-376, transitional and strict) with zipfile and ElementTree: values only."""

import math
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from columns import Cell, CellError
from skillio import SkillError

MAX_PART_BYTES = 128 * 1024 * 1024
MAX_CELLS = 1_000_000
MAX_COLUMN = 16_384
OLD_EXCEL = b"\xd0\xcf\x11\xe0"  # the OLE container of .xls and of encrypted workbooks

# ECMA-376 part 1, 18.8.30: built-in number formats that show a date or a time, East Asian ones included.
BUILTIN_DATE_FORMATS = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
NOT_CODE = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)

Value = Cell | CellError


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged range, rows and columns from 1, ends included."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """`rows` maps row number to column number to value, both from 1; empty cells are absent."""

    name: str
    rows: Mapping[int, Mapping[int, Value]]
    merges: Sequence[Merge]
    formulas_without_value: int


@dataclass(frozen=True, slots=True)
class Styles:
    shared_strings: Sequence[str]
    date_styles: frozenset[int]
    epoch: datetime


def read_workbook(path: Path) -> list[Sheet]:
    """Every worksheet in the order of its tabs. Raises SkillError when the file is no readable workbook."""
    with path.open("rb") as stream:
        if stream.read(4) == OLD_EXCEL:
            raise SkillError(f"{path.name} is an old .xls or an encrypted workbook; save it as an unencrypted .xlsx")
    try:
        with zipfile.ZipFile(path) as package:
            return list(sheets_of(package))
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error):
        raise SkillError(f"{path.name} is not an .xlsx workbook, or it is damaged") from None
    except ET.ParseError as error:
        raise SkillError(f"{path.name} holds damaged XML: {error}") from None
    except KeyError as error:
        raise SkillError(f"{path.name} is not a complete .xlsx workbook: {error.args[0]}") from None
    except ValueError as error:
        raise SkillError(f"{path.name} is damaged: {error}") from None


def sheets_of(package: zipfile.ZipFile) -> Iterator[Sheet]:
    book_part = office_document(package)
    book = parse(package, book_part)
    targets = relations(package, book_part)
    styles = styles_of(package, book, targets)
    for entry in children(book, "sheets", "sheet"):
        target, kind = targets[attribute(entry, "id")]
        if kind == "worksheet":
            yield read_sheet(package, target, entry.get("name", ""), styles)


def office_document(package: zipfile.ZipFile) -> str:
    for target, kind in relations(package, "").values():
        if kind == "officeDocument":
            return target
    raise KeyError("no officeDocument relation")


def relations(package: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Relation id → (part it leads to, last word of its type)."""
    folder, name = posixpath.split(part)
    found = {}
    for relation in parse(package, posixpath.join(folder, "_rels", f"{name}.rels")):
        target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
        found[relation.get("Id", "")] = (target, relation.get("Type", "").rpartition("/")[2])
    return found


def styles_of(package: zipfile.ZipFile, book: Element, targets: Mapping[str, tuple[str, str]]) -> Styles:
    parts = {kind: target for target, kind in targets.values()}
    strings = parse(package, parts["sharedStrings"]) if "sharedStrings" in parts else Element("sst")
    sheet_styles = parse(package, parts["styles"]) if "styles" in parts else Element("styleSheet")
    properties = next(iter(children(book, "workbookPr")), None)
    from_1904 = properties is not None and properties.get("date1904") in {"1", "true"}
    return Styles(
        shared_strings=[text_in(entry) for entry in strings],
        date_styles=date_styles(sheet_styles),
        # Serial 60 is the 29 February 1900 that never was, so the count of later days starts on 30 December 1899.
        epoch=datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30),  # noqa: DTZ001 - cells have no zone
    )


def date_styles(sheet_styles: Element) -> frozenset[int]:
    custom = {
        int(entry.get("numFmtId", "0")): is_date_code(entry.get("formatCode", ""))
        for entry in children(sheet_styles, "numFmts", "numFmt")
    }
    formats = [int(entry.get("numFmtId", "0")) for entry in children(sheet_styles, "cellXfs", "xf")]
    dated = (custom.get(code, code in BUILTIN_DATE_FORMATS) for code in formats)
    return frozenset(index for index, is_date in enumerate(dated) if is_date)


def is_date_code(code: str) -> bool:
    return bool(re.search(r"[ymdhs]", NOT_CODE.sub("", code.split(";", maxsplit=1)[0]), re.IGNORECASE))


def read_sheet(package: zipfile.ZipFile, part: str, name: str, styles: Styles) -> Sheet:
    rows: dict[int, dict[int, Value]] = {}
    merges: list[Merge] = []
    cells = uncounted = row = 0
    with opened(package, part) as stream:
        for _, element in ET.iterparse(stream, events=("end",)):
            match local(element):
                case "row":
                    row = int(element.get("r") or row + 1)
                    rows[row], empty_formulas = read_row(element, styles)
                    cells, uncounted = cells + len(rows[row]), uncounted + empty_formulas
                    element.clear()
                case "mergeCell":
                    merges.append(parse_merge(element.get("ref", "")))
            if cells > MAX_CELLS:
                raise SkillError(f"sheet {name!r} has more than {MAX_CELLS:,} filled cells; split the file")
    return Sheet(name, {number: values for number, values in rows.items() if values}, merges, uncounted)


def read_row(element: Element, styles: Styles) -> tuple[dict[int, Value], int]:
    """The row's values and how many formulas have none saved."""
    values: dict[int, Value] = {}
    column = empty_formulas = 0
    for cell in element:
        if local(cell) != "c":
            continue
        reference = cell.get("r")
        column = parse_reference(reference)[1] if reference else column + 1
        value = cell_value(cell, styles)
        if value is not None:
            values[column] = value
        elif any(local(part) == "f" for part in cell):
            empty_formulas += 1
    return values, empty_formulas


def cell_value(cell: Element, styles: Styles) -> Value:
    kind = cell.get("t", "n")
    parts = {local(part): part for part in cell}
    if kind == "inlineStr":
        return text_in(parts["is"]).strip() or None if "is" in parts else None
    raw = (parts["v"].text or "") if "v" in parts else ""
    if not raw.strip():
        return None
    return KINDS.get(kind, number)(raw.strip() if kind != "str" else raw, cell, styles)


def number(raw: str, cell: Element, styles: Styles) -> Value:
    try:
        value = float(raw)
    except ValueError:
        return raw
    if not math.isfinite(value):
        return raw
    if int(cell.get("s", "0")) in styles.date_styles:
        return moment(value, styles.epoch)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def moment(serial: float, epoch: datetime) -> Value:
    try:
        return epoch + timedelta(seconds=round(serial * 86_400))
    except (OverflowError, ValueError):
        return CellError("#####")


def shared_string(raw: str, cell: Element, styles: Styles) -> Value:
    index = int(raw)
    if not 0 <= index < len(styles.shared_strings):
        raise KeyError(f"cell {cell.get('r')} names shared string {index}, which is absent")
    return styles.shared_strings[index].strip() or None


def iso_date(raw: str, cell: Element, styles: Styles) -> Value:
    try:
        return datetime.fromisoformat(raw).replace(tzinfo=None)
    except ValueError:
        return raw


KINDS: Mapping[str, Callable[[str, Element, Styles], Value]] = {
    "n": number,
    "s": shared_string,
    "str": lambda raw, cell, styles: raw.strip() or None,
    "b": lambda raw, cell, styles: raw in {"1", "true"},
    "e": lambda raw, cell, styles: CellError(raw),
    "d": iso_date,
}


def parse_reference(reference: str) -> tuple[int, int]:
    """`B3` → (3, 2)."""
    match = re.fullmatch(r"\$?([A-Z]{1,3})\$?(\d{1,7})", reference.upper())
    column = 0
    for letter in match[1] if match else "":
        column = column * 26 + ord(letter) - 64
    if not match or not 1 <= column <= MAX_COLUMN:
        raise KeyError(f"{reference[:20]!r} is no cell reference")
    return int(match[2]), column


def parse_merge(reference: str) -> Merge:
    first, _, last = reference.partition(":")
    return Merge(*parse_reference(first), *parse_reference(last or first))


def parse(package: zipfile.ZipFile, part: str) -> Element:
    with opened(package, part) as stream:
        return ET.parse(stream).getroot()


def opened(package: zipfile.ZipFile, part: str) -> IO[bytes]:
    """Refuses what could fill the memory: parts too large, and document types, which the format does not use."""
    info = package.getinfo(part)
    if info.file_size > MAX_PART_BYTES:
        raise SkillError(f"{part} unpacks to {info.file_size:,} bytes; the limit is {MAX_PART_BYTES:,}")
    if info.flag_bits & 1:
        raise SkillError("the workbook is encrypted; save it without a password")
    with package.open(info) as stream:
        if b"<!DOCTYPE" in stream.read(4096):
            raise SkillError(f"{part} declares a document type, which workbooks never do")
    return package.open(info)


def local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def children(root: Element, *path: str) -> list[Element]:
    found = [root]
    for name in path:
        found = [child for parent in found for child in parent if local(child) == name]
    return found


def attribute(element: Element, name: str) -> str:
    """The value of a namespaced attribute, whichever of the two namespaces (transitional, strict) it is in."""
    return next((value for key, value in element.items() if key.endswith(f"}}{name}")), "")


def text_in(entry: Element) -> str:
    """The runs of a rich text joined; phonetic guides (rPh) are left out."""
    parts = [child for child in entry if local(child) != "rPh"]
    return "".join(text.text or "" for part in parts for text in part.iter() if local(text) == "t")
