"""JSON lines and any DataFrame (pandas, polars, pyarrow … by narwhals)."""

import json
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from timeplex.errors import InputError
from timeplex.files import to_json
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.problems import Action, Kind, record
from timeplex.kb.readers.columns import Columns, Layout, by_header
from timeplex.kb.table import ROLES, Table


def read_frame(frame: Any, *, source: str, split: str, columns: Columns) -> Table:
    """Read a DataFrame of any library that narwhals knows. Lines are row numbers from 1."""
    data = known_frame(frame, source)
    if data.is_empty():
        return Table.empty(source, split)
    layout = by_header([str(name) for name in data.columns], columns, source)
    rows = role_texts(data, layout, source).with_columns(line=pl.int_range(1, len(data) + 1, dtype=pl.Int64))

    def raw(positions: Sequence[int]) -> list[str]:
        shown = rows.drop("line")[list(positions)]
        return [to_json(row, ensure_ascii=False) for row in shown.iter_rows(named=True)]

    return Table(source, split, rows, raw)


def known_frame(frame: Any, source: str) -> "nw.DataFrame[Any]":
    """Any DataFrame as narwhals sees it; what is none is an error."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"{type(frame).__name__} is not a table that can be read.",
            "Give a path, or a DataFrame of pandas, polars or pyarrow.",
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"Two columns of {source} have the same name.", "Rename one.") from error


def role_texts(data: "nw.DataFrame[Any]", layout: Layout, source: str) -> pl.DataFrame:
    """The columns that play a role, by its name, as texts with nulls."""
    texts = {at: _texts(data[:, at], source) for at in layout.positions}
    return _rows(texts, layout, len(data))


def _rows(texts: dict[int, pl.Series], layout: Layout, height: int) -> pl.DataFrame:
    positions = (layout.subject, layout.relation, layout.object, layout.begin, layout.end)
    columns = {role: texts[at] for role, at in zip(ROLES, positions, strict=True) if at is not None}
    if layout.constant_relation is not None:
        columns["relation"] = pl.Series([layout.constant_relation]).new_from_index(0, height)
    return pl.DataFrame(columns)


def _texts(column: Any, source: str) -> pl.Series:
    """A column of any type as texts with nulls; dates and times as ISO days."""
    kind = column.dtype
    if isinstance(kind, nw.Date | nw.Datetime):
        return _days(column)
    if kind.is_nested() or kind.is_temporal() or isinstance(kind, nw.Binary):
        raise InputError(
            f"Column {column.name!r} of {source} holds {kind}, which is neither a name nor a date.",
            "Turn it into text first.",
        )
    native = column.to_native()
    if isinstance(native, pl.Series) and native.dtype == pl.String:
        return native
    # Libraries differ in how they mark what is missing (None, NaN, NaT, NA) and in how they write numbers.
    missing = column.is_null().to_list()
    values = [None if null else _text(value) for value, null in zip(column.to_list(), missing, strict=True)]
    return pl.Series(values, dtype=pl.String)


def _days(column: Any) -> pl.Series:
    """Dates and times as texts, by our own calendar: that of polars panics at a date far off."""
    if getattr(column.dtype, "time_zone", None):
        column = column.dt.replace_time_zone(None)
    missing = column.is_null().to_list()
    milliseconds = column.dt.timestamp("ms").to_list()
    days = [0 if null else int(value) // 86_400_000 for value, null in zip(milliseconds, missing, strict=True)]
    texts = pl.Series(dates.write(days, Granularity.DAY), dtype=pl.String)
    return texts.zip_with(~pl.Series(missing, dtype=pl.Boolean), pl.Series([None], dtype=pl.String))


def _text(value: Any) -> str | None:
    """One value as text. A whole number is written without a point, for one gap makes a column of numbers floats."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return None if value != value else str(value).removesuffix(".0")
    # A lone surrogate can stand in a Python string but not in UTF-8.
    return str(value).encode(errors="replace").decode()


def read_json_lines(data: bytes, *, source: str, split: str, columns: Columns) -> Table:
    """Read JSON lines: one object a line, its keys are the columns. A line that is no object is a problem."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    good: list[tuple[int, dict[str, Any]]] = []
    bad: dict[Kind, list[tuple[int, str]]] = {Kind.BAD_ENCODING: [], Kind.UNREADABLE_ROW: []}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError:
            bad[Kind.BAD_ENCODING].append((number, "the line is not valid UTF-8 text"))
        except (ValueError, RecursionError):
            bad[Kind.UNREADABLE_ROW].append((number, "the line is not JSON"))
        else:
            if isinstance(value, dict):
                good.append((number, value))
            else:
                bad[Kind.UNREADABLE_ROW].append((number, "the line is JSON, but not an object"))
    if not good and any(bad.values()):
        raise InputError(f"{source} holds no JSON object.", "Give one JSON object a line.")
    if not good:
        return Table.empty(source, split)
    keys = list(dict.fromkeys(key for _, row in good for key in row))
    layout = by_header(keys, columns, source)
    texts = {at: pl.Series([_scalar(row.get(keys[at])) for _, row in good], dtype=pl.String) for at in layout.positions}
    rows = _rows(texts, layout, len(good)).with_columns(line=pl.Series([number for number, _ in good]))

    def shown(number: int) -> str:
        return lines[number - 1].decode(errors="backslashreplace")

    def raw(positions: Sequence[int]) -> list[str]:
        return [shown(good[at][0]) for at in positions]

    problems = [
        record(
            source,
            [number for number, _ in found],
            kind,
            Action.SET_ASIDE,
            "",
            [reason for _, reason in found],
            [shown(number) for number, _ in found],
        )
        for kind, found in bad.items()
        if found
    ]
    return Table(source, split, rows, raw, problems)


def _scalar(value: Any) -> str | None:
    """A JSON value as text; lists and objects as JSON, which is no date and an honest name."""
    if isinstance(value, list | dict):
        value = to_json(value, ensure_ascii=False)
    return None if value is None else _text(value)
