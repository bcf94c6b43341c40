"""Names that differ by case, spaces, underscores or accents alone: probably one thing, spelled in several ways."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

SHOWN = 20
"""Groups of such names that are kept as examples."""

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Alike:
    """How many groups of names differ by case, spaces or accents alone, and the first of them."""

    groups: int = 0
    examples: tuple[tuple[str, ...], ...] = ()

    def __add__(self, other: "Alike") -> "Alike":
        return Alike(self.groups + other.groups, (self.examples + other.examples)[:SHOWN])


def bare(names: pl.Series) -> pl.Series:
    """Names without what is taken to make no difference.

    Only the accents of European scripts count as such: in others a mark may be a vowel. Nothing else is folded, for
    m² is not m2.
    """
    ascii_ = names.str.len_bytes() == names.str.len_chars()
    if not ascii_.all():
        without = names.str.normalize("NFD").str.replace_all("[\u0300-\u036f]+", "")
        names = names.zip_with(ascii_, without)
    return names.str.to_lowercase().str.replace_all(r"[_\s]+", " ").str.strip_chars()


def best_spellings(names: pl.Series, times: NDArray[np.int64]) -> tuple[Codes, Alike]:
    """For each of distinct, sorted names the number of its commonest spelling (of two, the first); and the groups.

    `times` says how often each name is used.
    """
    best = np.arange(len(names), dtype=np.int32)
    keys = bare(names)
    at = np.flatnonzero((keys.is_duplicated() & (keys != "")).to_numpy())
    if len(at) == 0:
        return best, Alike()
    group = keys.gather(at).rank("dense").to_numpy().astype(np.int64) - 1
    order = np.lexsort((at, -times[at], group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    best[at[order]] = at[order][starts][group[order]]
    listed = [names.gather(part).to_list() for part in np.split(at[order], starts[1:])[:SHOWN]]
    return best, Alike(len(starts), tuple(tuple(group) for group in listed))
