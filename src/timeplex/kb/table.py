"""What every reader hands on: rows of text with their line numbers, and the rows it could not use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import polars as pl

ROLES = ("subject", "relation", "object", "begin", "end")


@dataclass(frozen=True)
class Table:
    """Rows of one source before they are facts.

    `rows` has the columns line, subject, relation, object and, where the source has them, begin and end,
    all text (nulls allowed) but for the line. With begin and no end column each row is an event. `raw`
    gives the original text of the rows at given positions of `rows`. rows_read = height + len(problems).
    """

    source: str
    split: str
    rows: pl.DataFrame
    raw: Callable[[Sequence[int]], list[str]]
    problems: list[pl.DataFrame] = field(default_factory=list)

    @classmethod
    def empty(cls, source: str, split: str) -> Self:
        """The table of a source that has no row at all."""
        schema = {"line": pl.Int64, **dict.fromkeys(ROLES, pl.String)}
        return cls(source, split, pl.DataFrame(schema=schema), lambda positions: [])

    @property
    def events(self) -> bool:
        """Whether each row has one date, which is begin and end."""
        return "begin" in self.rows.columns and "end" not in self.rows.columns

    @property
    def rows_read(self) -> int:
        """Rows of the source, usable or not."""
        return self.rows.height + sum(frame.height for frame in self.problems)
