"""Densities of gaps, learned from counts: spikes are kept where there are cases, few cases are smoothed.

A gap d = t − t′ falls into a *bucket*: one an instant up to `EXACT` either way, wider ones beyond (5 % each), and for
days the anniversaries of the next decades. With n cases of a kind, counts c(d), and Laplace kernels of two widths,

    wide(d)    (the counts spread with scale 12 + uniform) / (n + 1)
    narrow(d)  (the counts spread with scale 2 + 10 · wide(d)) / (n + 10)
    p(d)       0.95 · (c(d) + 20 · narrow(d)) / (n + 20) + 0.05 · uniform

What is kept is log(p / uniform): 0 says nothing.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from timeplex.kb.dates import Granularity
from timeplex.typing import Codes, Features, Floats, Ints

EXACT = 300
GROWTH = 1.05
REACH = 20_000
NARROW, WIDE = 2.0, 12.0
NARROW_CASES, WIDE_CASES = 20.0, 10.0
ANYTHING = 0.05
SPIKES = 6
MOST_TABLES = 2_000
"""So many relations have densities of their own, the most frequent; all others share one."""
BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Buckets:
    """The bucket of each gap −reach … reach, (2 · reach + 1,), and each bucket's width in instants, (buckets,)."""

    reach: int
    of: Ints
    width: Floats

    def __call__(self, gaps: Ints) -> Ints:
        """The buckets of gaps; those beyond the reach fall into the outermost ones."""
        return self.of[np.clip(gaps, -self.reach, self.reach) + self.reach]


@cache
def buckets(granularity: Granularity) -> Buckets:
    """By year, gaps up to 300; by month and day also wider buckets, up to 20,000."""
    reach = EXACT if granularity == Granularity.YEAR else REACH
    gaps = np.arange(1, reach + 1)
    edges = [float(EXACT + 1)]
    while edges[-1] <= reach:
        edges.append(np.floor(edges[-1] * GROWTH) + 1)
    later = np.where(gaps <= EXACT, gaps, EXACT + np.searchsorted(edges, gaps, side="right"))
    if granularity == Granularity.DAY:
        around = np.rint(np.arange(1, 51) * 365.2425)[:, None] + np.array([-1, 0, 1])
        special = np.isin(gaps, around[around <= reach]) & (gaps > EXACT)
        later[special] = later.max() + 1 + np.arange(special.sum())
    of = np.concatenate([-later[::-1], [0], later])
    _, of = np.unique(of, return_inverse=True)
    return Buckets(reach, of.astype(np.int64), np.bincount(of).astype(float))


@njit(cache=True, nogil=True)
def _laplace(counts: Floats, scale: float) -> Floats:
    """Each row spread by a Laplace kernel that sums to one: a decaying sum from either side."""
    decay = np.exp(-1.0 / scale)
    weight = (1 - decay) / (1 + decay)
    rows, columns = counts.shape
    spread = np.empty((rows, columns))
    for row in range(rows):
        running = 0.0
        for at in range(columns):
            running = running * decay + counts[row, at]
            spread[row, at] = running
        running = 0.0
        for at in range(columns - 1, -1, -1):
            spread[row, at] = (spread[row, at] + running) * weight
            running = (running + counts[row, at]) * decay
    return spread


def smoothed(counts: Floats, width: Floats) -> Features:
    """log(p / uniform) of each bucket from its counts: (kinds, buckets) in and out."""
    table = np.empty(counts.shape, np.float32)
    uniform = width / width.sum()
    for at in range(0, len(counts), BLOCK):  # so that what lies between takes little room
        here = counts[at : at + BLOCK]
        cases = here.sum(1, keepdims=True)
        wide = (_laplace(here, WIDE) + uniform) / (cases + 1)
        narrow = (_laplace(here, NARROW) + WIDE_CASES * wide) / (cases + WIDE_CASES)
        share = (here + NARROW_CASES * narrow) / (cases + NARROW_CASES)
        table[at : at + BLOCK] = np.log((1 - ANYTHING) * share / uniform + ANYTHING)
    return table


def tables_of(r: Ints | Codes, relations: int) -> Ints:
    """The table of each relation, by how often it occurs in r: (relations,), 0, 1, … in the order of their numbers."""
    if relations <= MOST_TABLES:
        return np.arange(relations)
    frequent = np.argsort(-np.bincount(r, minlength=relations), kind="stable")[:MOST_TABLES]
    table = np.full(relations, MOST_TABLES)
    table[np.sort(frequent)] = np.arange(MOST_TABLES)
    return table


def spikes(table: Features, of: Buckets) -> Ints:
    """The gaps of `SPIKES` buckets of one instant in which each kind is densest: (kinds, at most `SPIKES`)."""
    gap = np.unique(of.of, return_index=True)[1] - of.reach
    single = np.flatnonzero(of.width[1:-1] == 1) + 1  # the outermost ones stand for all that lies beyond
    densest = np.argsort(-table[:, single], axis=1, kind="stable")[:, :SPIKES]
    return np.asarray(gap[single[densest]], np.int64)
