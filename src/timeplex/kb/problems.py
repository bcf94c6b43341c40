"""What was odd in the input: one record a problem, so that nothing is lost silently.

Law: rows read = facts + problems whose action is `set aside`; a row is set aside at most once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl


class Kind(StrEnum):
    """What is wrong with a row."""

    BAD_ENCODING = "bad encoding"
    UNREADABLE_ROW = "unreadable row"
    COLUMN_COUNT = "wrong column count"
    EMPTY_FIELD = "empty field"
    UNREADABLE_DATE = "unreadable date"
    UNKNOWN_YEAR = "unknown year"
    AMBIGUOUS_DATE = "ambiguous date"
    APPROXIMATE_DATE = "approximate date"
    UNCERTAIN_DATE = "uncertain date"
    PLACEHOLDER = "placeholder date"
    BEGIN_AFTER_END = "begin after end"
    IMPLAUSIBLE = "implausible instant"
    DUPLICATE = "exact duplicate"


class Action(StrEnum):
    """What was done with the row."""

    KEPT = "kept"
    REPAIRED = "repaired"
    SET_ASIDE = "set aside"


SCHEMA = pl.Schema(
    {
        "file": pl.String,
        "line": pl.Int64,
        "kind": pl.String,
        "action": pl.String,
        "field": pl.String,  # the column it is about: subject, begin, end …; empty for the whole row
        "reason": pl.String,
        "row": pl.String,  # as it stood in the source, cut at ROW_LENGTH characters
    }
)

BOTH_ENDS = "begin and end"
"""The field of a problem with the one date of an event."""

ROW_LENGTH = 500


def record(
    file: str,
    lines: Sequence[int],
    kind: Kind,
    action: Action,
    field: str | Sequence[str],
    reasons: str | Sequence[str],
    rows: Sequence[str],
) -> pl.DataFrame:
    """A table of problems of one kind in one file; `field` and `reasons` are one text or one a line."""
    frame = pl.DataFrame({"line": lines, "row": rows}, schema={"line": pl.Int64, "row": pl.String})

    def column(texts: str | Sequence[str]) -> pl.Expr | pl.Series:
        return pl.lit(texts) if isinstance(texts, str) else pl.Series(texts, dtype=pl.String)

    return frame.with_columns(
        file=pl.lit(file),
        kind=pl.lit(str(kind)),
        action=pl.lit(str(action)),
        field=column(field),
        reason=column(reasons),
        row=pl.when(pl.col("row").str.len_chars() > ROW_LENGTH)
        .then(pl.col("row").str.head(ROW_LENGTH) + "…")
        .otherwise(pl.col("row")),
    ).select(SCHEMA.names())


@dataclass(frozen=True)
class Problems:
    """All problems met while reading, in the order of the input, and how many rows were read.

    `notes` say what was decided of the table as a whole, such as that the day comes first; they are not stored.
    """

    frame: pl.DataFrame
    rows_read: int
    notes: tuple[str, ...] = ()

    @classmethod
    def none(cls, rows_read: int = 0) -> "Problems":
        """A clean bill."""
        return cls(SCHEMA.to_frame(), rows_read)

    def __len__(self) -> int:
        return self.frame.height

    @property
    def set_aside(self) -> int:
        """Number of rows that did not become facts."""
        return self.frame.filter(pl.col("action") == Action.SET_ASIDE).height

    def of(self, kind: Kind, field: str | None = None) -> pl.DataFrame:
        """The problems of one kind, of one field if given."""
        chosen = self.frame.filter(pl.col("kind") == str(kind))
        return chosen if field is None else chosen.filter(pl.col("field").str.split(" and ").list.contains(field))

    def of_facts(self, kind: Kind, field: str | None = None) -> pl.DataFrame:
        """The problems of one kind in rows that became facts: not those of rows set aside for something else."""
        aside = self.frame.filter(pl.col("action") == Action.SET_ASIDE)
        return self.of(kind, field).join(aside, on=["file", "line"], how="anti")

    def counts(self) -> list[tuple[str, str, int]]:
        """(kind, action, number), most frequent first."""
        table = self.frame.group_by("kind", "action").len().sort("len", "kind", descending=[True, False])
        return [(kind, action, number) for kind, action, number in table.iter_rows()]
