"""What must hold of the tables of a KB folder before anything of them is used, also if every checksum fits.

Polars gives a table what its file declares, so sizes are bounded first: a few bytes may stand for billions of rows.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import polars as pl
from pydantic import Field

from timeplex.errors import DamagedError
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.kb.names import Names
from timeplex.kb.problems import SCHEMA, Action, Kind, Problems, Unlisted
from timeplex.kb.readers.parquet import declared_sizes, parquet_frame
from timeplex.stored import AGAIN, Record

FACTS = {"s": pl.Int32, "r": pl.Int32, "o": pl.Int32, "begin": pl.Int32, "end": pl.Int32, "split": pl.String}
NAMES = {"name": pl.String, "label": pl.String}

FREE_ROWS, ROWS_A_BYTE = 2_000_000, 4
"""A table has at most so many rows, and so many more a byte of its file."""

FREE_BYTES, BYTES_A_BYTE = 200_000_000, 32
"""And its pages unpack to at most so many bytes, and so many more a byte."""

YEARS = (-10_000, 10_000)
"""All dates lie between these."""

Count = Annotated[int, Field(ge=0, lt=2**31)]


class Description(Record):
    """What kb.json says."""

    format: Literal[1]
    name: str = Field(max_length=10_000)
    granularity: Granularity
    rows_read: int = Field(ge=0, lt=2**62)
    splits: dict[Literal["train", "valid", "test"], Count]
    entities: Count
    relations: Count
    unlisted: tuple[Unlisted, ...] = ()


def table(content: bytes, source: object, schema: Mapping[str, type[pl.DataType] | pl.DataType]) -> pl.DataFrame:
    """The content of a Parquet file as a table with just these columns."""
    try:
        rows, unpacked = declared_sizes(content)
        if rows > FREE_ROWS + ROWS_A_BYTE * len(content) or unpacked > FREE_BYTES + BYTES_A_BYTE * len(content):
            raise DamagedError(f"{source} declares more than a file of its size can hold.", AGAIN)
        frame = parquet_frame(content, str(source))
    except DamagedError:
        raise
    except Exception as error:
        raise DamagedError(f"{source} is not a readable Parquet file.", AGAIN) from error
    if dict(frame.schema) != dict(schema):
        raise DamagedError(f"{source} does not have the columns {', '.join(schema)} of their types.", AGAIN)
    return frame


def names(frame: pl.DataFrame, number: int, source: object) -> Names:
    """Names, which must be sorted and distinct: the numbers in the facts are their places."""
    texts = frame["name"]
    _require(frame.height == number, source, f"has {frame.height:,} names where kb.json says {number:,}")
    _require(texts.null_count() == 0, source, "has a name that is null")
    _require(
        bool((texts.head(max(number - 1, 0)) < texts.tail(max(number - 1, 0))).all()),
        source,
        "has names that are not sorted and distinct",
    )
    labelled = frame.drop_nulls("label")
    return Names(texts, dict(zip(labelled["name"], labelled["label"], strict=True)))


def splits(frame: pl.DataFrame, said: Description, source: object) -> dict[str, Facts]:
    """The facts of each split, after holding them against the names, the calendar and the counts."""
    _require("train" in said.splits, source, "has no train facts, because kb.json has no such split")
    for column in ("s", "r", "o", "split"):
        _require(frame[column].null_count() == 0, source, f"has a null in the column {column}")
    counts = dict(frame.group_by("split").len().iter_rows())
    agreed = {split: number for split, number in said.splits.items() if number} == counts
    _require(agreed, source, "has other numbers of facts in its splits than kb.json says")
    for column, number in (("s", said.entities), ("r", said.relations), ("o", said.entities)):
        _require(_within(frame[column], 0, number - 1), source, f"has a number in {column} that names nothing")
    first, last = _calendar(said.granularity)
    for column in ("begin", "end"):
        _require(_within(frame[column].drop_nulls(), first, last), source, f"has a date in {column} beyond all years")
    closed = frame.with_columns(pl.col("begin").fill_null(spans.OPEN_BEGIN), pl.col("end").fill_null(spans.OPEN_END))
    _require(bool((closed["begin"] <= closed["end"]).all()), source, "has a fact that ends before it begins")
    return {split: _facts(closed.filter(pl.col("split") == split)) for split in said.splits}


def problems(frame: pl.DataFrame, said: Description, source: object) -> Problems:
    """What was odd in the input, of kinds that are known."""
    _require(sum(frame.null_count().row(0)) == 0, source, "has a null")
    for column, known in (("kind", Kind), ("action", Action)):
        _require(bool(frame[column].is_in(list(known)).all()), source, f"has an unknown {column}")
    for more in said.unlisted:
        known_kind = more.kind in list(Kind) and more.action in list(Action)
        _require(known_kind and 0 < more.rows <= said.rows_read, source, "has more problems than kb.json can count")
    found = Problems(frame.select(SCHEMA.names()), said.rows_read, tuple(said.unlisted))
    _require(
        found.set_aside <= said.rows_read, source, f"sets more rows aside than the {said.rows_read:,} that were read"
    )
    return found


def _facts(frame: pl.DataFrame) -> Facts:
    return Facts(*(frame[name].to_numpy().astype(np.int32) for name in ("s", "r", "o", "begin", "end")))


def _within(column: pl.Series, low: int, high: int) -> bool:
    return bool(((column >= low) & (column <= high)).all())


def _calendar(granularity: Granularity) -> tuple[int, int]:
    """The first and the last instant that a date can be."""
    first, last = YEARS
    if granularity is Granularity.DAY:
        return int(dates.day_number(first, 1, 1)), int(dates.day_number(last, 12, 31))
    return (first * 12, last * 12 + 11) if granularity is Granularity.MONTH else YEARS


def _require(holds: bool, source: object, problem: str) -> None:
    if not holds:
        raise DamagedError(f"{source} {problem}.", AGAIN)
