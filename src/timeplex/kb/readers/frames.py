"""Parquet, JSON lines and any DataFrame (pandas, polars, pyarrow … by narwhals)."""

import io
import json
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from timeplex.errors import InputError
from timeplex.kb.problems import Action, Kind, record
from timeplex.kb.readers.columns import Columns, Layout, by_header
from timeplex.kb.table import ROLES, Table


def read_frame(frame: Any, *, source: str, split: str, columns: Columns) -> Table:
    """Read a DataFrame of any library that narwhals knows. Lines are row numbers from 1."""
    try:
        data = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"{type(frame).__name__} is not a table that can be read.",
            "Give a path, or a DataFrame of pandas, polars or pyarrow.",
        ) from error
    if data.is_empty():
        raise InputError(f"{source} is empty.", "Give a table with one fact a row.")
    layout = by_header([str(name) for name in data.columns], columns, source)
    texts = {at: _texts(data[:, at], source) for at in layout.positions}
    rows = _rows(texts, layout, len(data)).with_columns(line=pl.int_range(1, len(data) + 1, dtype=pl.Int64))

    def raw(positions: Sequence[int]) -> list[str]:
        shown = rows.drop("line")[list(positions)]
        return [json.dumps(row, ensure_ascii=False) for row in shown.iter_rows(named=True)]

    return Table(source, split, rows, raw)


def _rows(texts: dict[int, pl.Series], layout: Layout, height: int) -> pl.DataFrame:
    positions = (layout.subject, layout.relation, layout.object, layout.begin, layout.end)
    columns = {role: texts[at] for role, at in zip(ROLES, positions, strict=True) if at is not None}
    if layout.constant_relation is not None:
        columns["relation"] = pl.Series([layout.constant_relation]).new_from_index(0, height)
    return pl.DataFrame(columns)


def _texts(column: Any, source: str) -> pl.Series:
    """A column of any type as texts with nulls; dates and times as ISO."""
    kind = column.dtype
    if isinstance(kind, nw.Date | nw.Datetime):
        column = column.dt.to_string("%Y-%m-%d")
    elif kind.is_numeric() or isinstance(kind, nw.Categorical | nw.Enum | nw.Boolean):
        column = column.cast(nw.String)
    elif kind.is_nested() or kind.is_temporal() or isinstance(kind, nw.Binary):
        raise InputError(
            f"Column {column.name!r} of {source} holds {kind}, which is neither a name nor a date.",
            "Turn it into text first.",
        )
    values = [None if value is None or value != value else str(value) for value in column.to_list()]
    return pl.Series(values, dtype=pl.String)


def read_parquet(data: bytes, *, source: str, split: str, columns: Columns) -> Table:
    """Read the bytes of a Parquet file."""
    try:
        frame = pl.read_parquet(io.BytesIO(data), memory_map=False)
    except BaseException as error:
        # A damaged file can make the decoder panic, and that is not an `Exception`.
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise InputError(f"{source} is not a readable Parquet file.", "It may be damaged: write it again.") from error
    return read_frame(frame, source=source, split=split, columns=columns)


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
    if not good:
        what = "holds no JSON object" if any(bad.values()) else "is empty"
        raise InputError(f"{source} {what}.", "Give one JSON object a line.")
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
    if value is None or isinstance(value, str):
        # A lone surrogate can be written in JSON but not in UTF-8.
        return value if value is None else value.encode(errors="replace").decode()
    return json.dumps(value, ensure_ascii=False)
