"""Spreadsheets: .xlsx of Excel and .ods of LibreOffice, by calamine.

Both are zip files of XML. Calamine trusts them: it unpacks whatever is packed, and makes room for every cell up to the
outermost one. So the parts are unpacked here, up to a limit, the outermost cell is looked for, and calamine is given a
zip file that holds just these parts.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from datetime import time, timedelta
from typing import Any
from xml.parsers import expat

from timeplex.errors import InputError
from timeplex.kb.readers.opening import too_large
from timeplex.kb.readers.rows import Collector, text_of
from timeplex.kb.readers.table import ROLES, Columns, Table, doubled, find_layout

MOST_PARTS = 10_000

FREE_CELLS = 4_000_000
"""A sheet may span so many cells, or as many as its file has bytes."""

DAMAGED = "It may be damaged: save it again, or as CSV."


def read_sheet(
    data: bytes, *, source: str, split: str, columns: Columns, limit: int, sheet: str | None = None
) -> Table:
    """Read one sheet: that of a name, or the first that has rows. Lines are the rows of the sheet, from 1.

    Empty rows are passed over, and titles of one cell above the table, too.
    """
    rows = _without_titles(list(sheet_rows(data, source, limit, sheet)))
    collector = Collector(source, split, columns)
    if not rows:
        return collector.table()
    first = _trimmed(rows[0][1])
    _, has_header = find_layout(first, columns, source)
    names = [*first, *("" for _ in rows[0][1][len(first) :])] if has_header else list(ROLES)
    for number, cells in rows[has_header:]:
        if not has_header and not 3 <= len(_trimmed(cells)) <= len(ROLES):
            collector.bad_width(number, len(_trimmed(cells)), "3 to 5", _shown(cells))
        else:
            # Of two columns with one name the first counts; without a header, what the first row has not no row has.
            used = names if has_header else names[: max(len(first), len(_trimmed(cells)))]
            collector.add(number, dict(reversed(list(zip(used, cells, strict=False)))))
    return collector.table(doubled=doubled(first) if has_header else ())


def _shown(cells: Sequence[str]) -> str:
    return "\t".join(_trimmed(cells))


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Cells without the empty ones at the end."""
    filled = [at for at, text in enumerate(cells) if text.strip()]
    return list(cells[: filled[-1] + 1]) if filled else []


def _without_titles(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Rows from the first on that has three cells or more, if those above it have just one."""
    for at, (_, cells) in enumerate(rows):
        filled = sum(bool(text.strip()) for text in cells)
        if filled != 1:
            return rows[at:] if filled >= 3 else rows
    return rows


def sheet_rows(data: bytes, source: str, limit: int, sheet: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Number and texts of each row of a sheet that is not empty."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(f"{source} is locked by a password, or of an old Excel.", "Save it as .xlsx without one.")
    parts = _parts(data, source, limit)
    for name, content in parts.items():
        _check_extent(name, content, source)
    try:
        yield from _rows(_packed(parts), source, sheet)
    except InputError:
        raise
    except BaseException as error:  # also a panic, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
            raise
        raise InputError(f"{source} is not a readable spreadsheet.", DAMAGED) from error


def _parts(data: bytes, source: str, limit: int) -> dict[str, bytes]:
    """The parts that describe cells, unpacked: not more than `limit` bytes."""
    parts: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_PARTS or sum(info.file_size for info in infos) > limit:
                raise too_large(source, limit)
            for info in infos:
                if not info.filename.lower().endswith((".xml", ".rels", "mimetype")):
                    continue
                with archive.open(info) as part:
                    left = limit - sum(map(len, parts.values()))
                    parts[info.filename] = part.read(left + 1)
                    if len(parts[info.filename]) > left:
                        raise too_large(source, limit)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, LookupError) as error:
        raise InputError(f"{source} is not a readable spreadsheet.", DAMAGED) from error
    return parts


def _packed(parts: dict[str, bytes]) -> io.BytesIO:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    packed.seek(0)
    return packed


def _rows(packed: io.BytesIO, source: str, sheet: str | None) -> Iterator[tuple[int, list[str]]]:
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_filelike(packed)
    names = book.sheet_names
    if sheet is not None and sheet not in names:
        listed = ", ".join(ascii(name) if not name.isprintable() else name for name in names[:20])
        raise InputError(f"{source} has no sheet {sheet!r}.", f"Its sheets are: {listed}.")
    for name in names if sheet is None else [sheet]:
        found = book.get_sheet_by_name(name)
        filled = False
        for number, cells in enumerate(found.to_python(skip_empty_area=False), start=1):
            texts = [_cell(value) for value in cells]
            if any(text.strip() for text in texts):
                filled = True
                yield number, texts
        if filled:
            return


def _cell(value: Any) -> str:
    return str(value) if isinstance(value, time | timedelta) else text_of(value) or ""


# How far the cells reach


def _check_extent(name: str, content: bytes, source: str) -> None:
    """Refuse a sheet whose outermost cell is so far out that making room for all others is out of the question."""
    extent = _Extent()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = extent.start, extent.end
    parser.StartDoctypeDeclHandler = _no_doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if name.endswith((".xml", ".rels")):
            raise InputError(f"{source} is not a readable spreadsheet.", DAMAGED) from error
    if extent.rows * extent.columns > max(FREE_CELLS, len(content)):
        raise InputError(
            f"{source} has a sheet that spans {extent.rows:,} rows and {extent.columns:,} columns, nearly all empty.",
            "Delete what stands far from the table, or save it as CSV.",
        )


def _no_doctype(*_: Any) -> None:
    raise ValueError("a document type may define anything")


class _Extent:
    """Follows the elements of a sheet: up to which row and column are there cells?"""

    REFERENCE = re.compile(r"([A-Za-z]{0,9})(\d{1,18})")

    def __init__(self) -> None:
        self.rows = self.columns = 0
        self._row = self._column = 0  # where the next ones are
        self._height = self._width = 1  # how often the row or cell of .ods is repeated
        self._filled = 0  # up to which column the row of .ods has content
        self._in_cell = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name.rpartition(":")[2]:
            case "row":
                self._row, self._column = self._place(attributes.get("r", ""), self._row + 1)[0], 0
                self.rows = max(self.rows, self._row)
            case "c":
                row, column = self._place(attributes.get("r", ""), self._row, self._column + 1)
                self._row, self._column = max(self._row, row), column
                self.rows, self.columns = max(self.rows, row), max(self.columns, column)
            case "table-row":
                self._height, self._column, self._filled = self._times(attributes, "rows"), 0, 0
            case "table-cell" | "covered-table-cell":
                self._width, self._in_cell = self._times(attributes, "columns"), True
                self._column += self._width
                if any(key.startswith("office:") or key.startswith("calcext:") for key in attributes):
                    self._filled = self._column
            case "table":
                self._row = 0
            case _:
                if self._in_cell:
                    self._filled = self._column

    def end(self, name: str) -> None:
        match name.rpartition(":")[2]:
            case "table-row":
                self._row += self._height
                if self._filled:
                    self.rows, self.columns = max(self.rows, self._row), max(self.columns, self._filled)
            case "table-cell" | "covered-table-cell":
                self._in_cell = False

    def _place(self, reference: str, row: int, column: int = 0) -> tuple[int, int]:
        """Row and column of a reference such as `B12` (or `12`); what it does not say is as given."""
        found = self.REFERENCE.fullmatch(reference)
        if found is None:
            return row, column
        letters = 0
        for letter in found[1].upper():
            letters = 26 * letters + ord(letter) - 64
        return int(found[2]), letters or column

    def _times(self, attributes: dict[str, str], what: str) -> int:
        text = attributes.get(f"table:number-{what}-repeated", "1")
        return int(text[:18]) if text.isdecimal() else 1
