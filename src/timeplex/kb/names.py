"""Names of entities or relations, both ways: number → name, name → number, and the labels people read."""

import difflib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.errors import UnknownNameError


def encode(frame: pl.DataFrame, *groups: tuple[str, ...]) -> list[tuple[list[NDArray[np.int32]], pl.Series]]:
    """Number the distinct texts of each group of columns in sorted order: column = distinct[codes].

    Returns for each group the codes, one array a column, and the distinct texts. Nulls are not allowed.
    """
    # A categorical with a mapping of its own numbers the texts as they come, in one pass over the rows.
    columns = [column for group in groups for column in group]
    seen = frame.select(pl.col(column).cast(pl.Categorical(pl.Categories.random())) for column in columns)
    encoded = []
    for group in groups:
        codes = [seen[column].to_physical().to_numpy() for column in group]
        texts = [frame[column].gather(_any_row_of_each(code)) for column, code in zip(group, codes, strict=True)]
        together = pl.concat(texts).alias("name")
        rank = together.rank("dense").to_numpy().astype(np.int32) - 1
        ranks = np.split(rank, np.cumsum([len(column) for column in texts[:-1]]))
        numbered = [of[code] for of, code in zip(ranks, codes, strict=True)]
        encoded.append((numbered, together.gather(_any_row_of_each(rank))))
    return encoded


def _any_row_of_each(codes: NDArray[Any]) -> NDArray[np.int64]:
    """For each code 0, 1, … one row that has it; every code up to the greatest must occur."""
    rows = np.empty(int(codes.max(initial=0)) + 1 if len(codes) else 0, np.int64)
    rows[codes] = np.arange(len(codes))
    return rows


def _increasing(names: pl.Series) -> bool:
    """Whether the names are sorted and distinct already, which is cheaper to see than to bring about."""
    return bool((names.head(max(len(names) - 1, 0)) < names.tail(max(len(names) - 1, 0))).all())


class Names:
    """Distinct names; the number of a name is its rank in sorted order, so the order of rows has no say.

    Labels are for display (Q76 → "Barack Obama"); a name without one is its own label.

    >>> names = Names(pl.Series(["Q31", "Q183"]), {"Q183": "Germany"})
    >>> names[0], names.label(0), names.id("Q31")
    ('Q183', 'Germany', 1)
    """

    def __init__(self, names: pl.Series, labels: dict[str, str] | None = None) -> None:
        names = names.cast(pl.String).alias("name")
        self.names = names if _increasing(names) else names.unique().sort()
        present = set(self.names) if labels else set()
        self.labels = {name: label for name, label in (labels or {}).items() if name != label and name in present}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return str(self.names[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.to_list())

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        return self.names.equals(other.names) and self.labels == other.labels

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names.to_list())}

    def label(self, number: int) -> str:
        """What a person reads for this number."""
        return self.labels.get(self[number], self[number])

    def id(self, name: str) -> int:
        """The number of a name; an unknown name is an error that tells the closest ones."""
        number = self._numbers.get(name)
        if number is None:
            close = difflib.get_close_matches(name, self._numbers, n=3)
            raise UnknownNameError(
                f"Unknown name {name!r}.",
                "Did you mean " + " or ".join(repr(match) for match in close) + "?" if close else "",
            )
        return number
