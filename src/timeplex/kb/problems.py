"""What was odd in the input: one record a problem, so that nothing is lost silently.

Law: rows read = facts + problems whose action is `set aside`; a row is set aside at most once.
A file may hold millions of rows that are all wrong in the same way: the first `LISTED` of a kind are kept one by one,
the others are counted, so that all numbers stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from timeplex.kb.names import Alike

if TYPE_CHECKING:
    from timeplex.kb.facts import Facts


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
    OTHER_SPELLING = "other spelling"


class Action(StrEnum):
    """What was done with the row."""

    KEPT = "kept"
    REPAIRED = "repaired"
    SET_ASIDE = "set aside"


TOLD = pl.Schema(
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
"""What people see of a problem."""

FACT = ("s", "r", "o", "begin", "end")
SCHEMA = pl.Schema([*TOLD.items(), *((name, pl.Int32()) for name in FACT)])
"""All that is kept: if the end was set to the begin, also the numbers of the fact and both ends as the source has them.

They are null for other problems, and for all of a KB folder that was written without these columns.
"""

BOTH_ENDS = "begin and end"
"""The field of a problem with the one date of an event."""

ROW_LENGTH = 500

LISTED = 100_000
"""Problems of one kind in one file that are kept one by one."""


@dataclass(frozen=True)
class Unlisted:
    """Further problems of a kind in a file, of which only the number is kept."""

    file: str
    kind: str
    action: str
    field: str
    rows: int


@dataclass(frozen=True)
class Problems:
    """All problems met while reading, in the order of the input, and how many rows were read.

    `notes` say what was decided of the table as a whole, such as that the day comes first; they are not stored.
    `unlisted` counts those that are not in `frame` because there are too many. `unused_columns` play no role and were
    not read, of `doubled_columns` (two of one name) the first was. `alike` tells of names that may be one.
    """

    frame: pl.DataFrame
    rows_read: int
    unlisted: tuple[Unlisted, ...] = ()
    unused_columns: tuple[str, ...] = ()
    doubled_columns: tuple[str, ...] = ()
    alike: Alike = field(default_factory=Alike)
    notes: tuple[str, ...] = ()

    @classmethod
    def none(cls, rows_read: int = 0) -> "Problems":
        """A clean bill."""
        return cls(SCHEMA.to_frame(), rows_read)

    @property
    def told(self) -> pl.DataFrame:
        """The columns of the table that people see."""
        return self.frame.select(TOLD.names())

    def __len__(self) -> int:
        return self.frame.height + sum(more.rows for more in self.unlisted)

    @property
    def set_aside(self) -> int:
        """Number of rows that did not become facts."""
        listed = self.frame.filter(pl.col("action") == Action.SET_ASIDE).height
        return listed + sum(more.rows for more in self.unlisted if more.action == Action.SET_ASIDE)

    def of(self, kind: Kind, field: str | None = None) -> pl.DataFrame:
        """The problems of one kind, of one field if given."""
        chosen = self.frame.filter(pl.col("kind") == str(kind))
        return chosen if field is None else chosen.filter(pl.col("field").str.split(" and ").list.contains(field))

    def of_facts(self, kind: Kind, field: str | None = None) -> pl.DataFrame:
        """The problems of one kind in rows that became facts: not those of rows set aside for something else."""
        aside = self.frame.filter(pl.col("action") == Action.SET_ASIDE)
        return self.of(kind, field).join(aside, on=["file", "line"], how="anti")

    def number_of_facts(self, kind: Kind, field: str | None = None) -> int:
        """How many problems of one kind (and field) are in rows that became facts; unlisted ones are taken to be."""
        more = [
            each.rows for each in self.unlisted if each.kind == kind and field in (None, *each.field.split(" and "))
        ]
        return self.of_facts(kind, field).height + sum(more)

    def counts(self) -> list[tuple[str, str, int]]:
        """(kind, action, number), most frequent first."""
        more = pl.DataFrame(
            [(each.kind, each.action, each.rows) for each in self.unlisted],
            schema={"kind": pl.String, "action": pl.String, "len": pl.Int64},
            orient="row",
        )
        listed = self.frame.group_by("kind", "action").len().cast({"len": pl.Int64})
        table = pl.concat([listed, more]).group_by("kind", "action").sum()
        return list(table.sort("len", "kind", descending=[True, False]).iter_rows())


class Log:
    """Collects the problems of one file, and counts what is beyond the `LISTED` of a kind."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.frames: list[pl.DataFrame] = []
        self._listed: dict[Kind, int] = {}
        self._more: dict[tuple[Kind, Action, str], int] = {}

    def room(self, kind: Kind) -> int:
        """How many more problems of a kind can be listed."""
        return LISTED - self._listed.get(kind, 0)

    def add(
        self,
        lines: Sequence[int],
        kind: Kind,
        action: Action,
        field: str | Sequence[str],
        reasons: str | Sequence[str],
        rows: Sequence[str],
        facts: "Facts | None" = None,
    ) -> None:
        """List problems of one kind; `field` and `reasons` are one text or one a line, `facts` are as read."""
        self._listed[kind] = self._listed.get(kind, 0) + len(lines)
        no_fact = pl.lit(None, pl.Int32)
        told = pl.DataFrame({"line": lines, "row": rows}, schema={"line": pl.Int64, "row": pl.String}).with_columns(
            file=pl.lit(self.file),
            kind=pl.lit(str(kind)),
            action=pl.lit(str(action)),
            field=_column(field),
            reason=_column(reasons),
            row=pl.when(pl.col("row").str.len_chars() > ROW_LENGTH)
            .then(pl.col("row").str.head(ROW_LENGTH) + "…")
            .otherwise(pl.col("row")),
            **{name: no_fact if facts is None else pl.Series(getattr(facts, name)) for name in FACT},
        )
        self.frames.append(told.select(SCHEMA.names()))

    def count(self, kind: Kind, action: Action, field: str, rows: int) -> None:
        """Count problems for which there is no room."""
        if rows:
            key = kind, action, field
            self._more[key] = self._more.get(key, 0) + rows

    @property
    def unlisted(self) -> list[Unlisted]:
        """What was counted."""
        return [Unlisted(self.file, str(k), str(a), field, rows) for (k, a, field), rows in self._more.items()]

    @property
    def rows(self) -> int:
        """All problems, listed and counted."""
        return sum(frame.height for frame in self.frames) + sum(self._more.values())


def _column(texts: str | Sequence[str]) -> pl.Expr | pl.Series:
    return pl.lit(texts) if isinstance(texts, str) else pl.Series(texts, dtype=pl.String)
