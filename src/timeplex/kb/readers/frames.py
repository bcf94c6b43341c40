"""Any DataFrame (pandas, polars, pyarrow … by narwhals)."""

from typing import Any

import narwhals as nw
import polars as pl

from timeplex.errors import InputError
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.problems import Log
from timeplex.kb.readers.columns import Columns, Layout, by_header, role_columns, unused
from timeplex.kb.readers.records import as_json, text_of
from timeplex.kb.table import Table


def read_frame(frame: Any, *, source: str, split: str, columns: Columns) -> Table:
    """Read a DataFrame of any library that narwhals knows. Lines are row numbers from 1."""
    data = known_frame(frame, source)
    if data.is_empty():
        return Table.empty(source, split)
    names = [str(name) for name in data.columns]
    layout = by_header(names, columns, source)
    rows = role_texts(data, layout, source).with_columns(line=pl.int_range(1, len(data) + 1, dtype=pl.Int64))
    return Table(source, split, rows, as_json(rows), Log(source), unused(names, layout))


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
    return role_columns(texts, layout, len(data))


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
    values = [None if null else text_of(value) for value, null in zip(column.to_list(), missing, strict=True)]
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
