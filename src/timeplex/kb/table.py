"""What every reader hands on: rows of text with their line numbers, and the rows it could not use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import polars as pl

from timeplex.kb.problems import Log

ROLES = ("subject", "relation", "object", "begin", "end")


@dataclass(frozen=True)
class Table:
    """Rows of one source before they are facts.

    `rows` has the columns line, subject, relation, object and, where the source has them, begin and end,
    all text (nulls allowed) but for the line. With begin and no end column each row is an event. `raw`
    gives the original text of the rows at given positions of `rows` (ascending; a long one may be cut after what a
    problem shows). `log` has the rows that could not be used: rows_read = height + log.rows at first. `unused` are the
    columns that play no role, `doubled` the names that more than one column has.
    """

    source: str
    split: str
    rows: pl.DataFrame
    raw: Callable[[Sequence[int]], list[str]]
    log: Log
    unused: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    rows_read: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows_read", self.rows.height + self.log.rows)

    @classmethod
    def empty(cls, source: str, split: str) -> Self:
        """The table of a source that has no row at all."""
        schema = {"line": pl.Int64, **dict.fromkeys(ROLES, pl.String)}
        return cls(source, split, pl.DataFrame(schema=schema), lambda positions: [], Log(source))

    @property
    def events(self) -> bool:
        """Whether each row has one date, which is begin and end."""
        return "begin" in self.rows.columns and "end" not in self.rows.columns
