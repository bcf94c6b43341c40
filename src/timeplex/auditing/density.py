"""How usual a value is among others of its group: quantiles, and the density by its nearest neighbours."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timeplex.kb.dates import Ints

Floats = NDArray[np.float64]

LEAST_NEIGHBOURS = 4
PLACES = 5
"""In how many places a value may stand among its neighbours: the densest window counts."""
NORMAL_95 = 1.645
"""The 95 % quantile of the normal distribution: (q₉₅ − q₅) / 2 is so many standard deviations."""


@dataclass(frozen=True)
class Habits:
    """What is usual in each group 0 … k − 1: the number of values and their 5 %, 50 % and 95 % quantiles, (k,) each."""

    size: Ints
    low: Ints
    median: Ints
    high: Ints

    @property
    def spread(self) -> Floats:
        """A robust standard deviation: half the distance of the outer quantiles, over 1.645."""
        return (self.high - self.low) / (2 * NORMAL_95)


def sort_by(group: Ints, value: Ints) -> Ints:
    """The order by group, then value; what is equal in both comes in any order. Shapes (n,)."""
    low = int(value.min(initial=0))
    width = int(value.max(initial=0)) - low + 1
    if (int(group.max(initial=0)) + 1) * width < 1 << 62:  # one key is sorted several times as fast as two
        return np.argsort(group * width + (value - low))
    return np.lexsort((value, group))


def numbered(*columns: ArrayLike) -> tuple[Ints, int]:
    """A number 0 … k − 1 for each row of the columns, the same for equal rows, in their order: (n,), and k.

    The first column may hold anything, the others numbers from 0 to 2³² − 1.
    """
    first, *others = (np.asarray(column, np.int64) for column in columns)
    distinct, number = np.unique(first, return_inverse=True)
    for column in others:
        distinct, number = np.unique((number << 32) | column, return_inverse=True)
    return number, len(distinct)


def habits(group: Ints, value: Ints, groups: int, order: Ints | None = None) -> Habits:
    """The habits of the groups 0 … groups − 1, given each value's group (and `sort_by` of both, if it is known).

    A group without values has zeros.
    """
    ordered = value[sort_by(group, value) if order is None else order]
    size = np.bincount(group, minlength=groups)
    start = np.cumsum(size) - size

    def quantile(share: float) -> Ints:
        place = start + np.round(share * (size - 1)).astype(np.int64)
        return np.where(size > 0, np.append(ordered, 0)[np.minimum(np.maximum(place, 0), len(ordered))], 0)

    return Habits(size, quantile(0.05), quantile(0.5), quantile(0.95))


def density(group: Ints, value: Ints, order: Ints | None = None) -> Floats:
    """The share of the other values of the group near each value, an instant wide. Shapes (n,) in and out.

    A window of at least k + 1 values holds the value itself and reaches from a to b: density = (values in it − 1) / (n
    · (b − a + 1)), for the densest of `PLACES` windows. k is the cube root of the group's size n, and at least 4: so
    few values that lie far off cannot make each other look usual. The value itself does not count. A window that is
    wider than nine tenths of the group reaches over a void: it counts less, by the share of it that those take, so that
    the density goes down with the square of the distance.
    """
    order = sort_by(group, value) if order is None else order
    value, group = value[order], group[order]
    number, begin, first, past = _runs(group, value)
    size = np.bincount(group)[group] if len(group) else number
    last = begin + size - 1
    around = np.minimum(np.maximum(np.ceil(np.cbrt(size)), LEAST_NEIGHBOURS), size - 1).astype(np.int64)
    bounds = (begin + np.round(share * (size - 1)).astype(np.int64) for share in (0.95, 0.05))
    most = np.subtract(*(value[place] for place in bounds)) + 1.0
    best = np.zeros(len(value))
    for place in range(PLACES):
        low = np.clip(np.arange(len(value)) - around * place // (PLACES - 1), begin, last - around)
        high = low + around
        others = past[number[high]] - first[number[low]] - 1
        width = value[high] - value[low] + 1.0
        best = np.maximum(best, others / (size * width) * np.minimum(1, most / width))
    result = np.empty(len(value))
    result[order] = best
    return result


def _runs(group: Ints, value: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Of sorted values: the run of equal ones each is in, where its group begins; where runs begin and end."""
    new_group = np.append(True, group[1:] != group[:-1])[: len(group)]
    new = new_group | np.append(True, value[1:] != value[:-1])[: len(group)]
    number = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    begin = np.maximum.accumulate(np.where(new_group, np.arange(len(group)), 0))
    return number, begin, first, np.append(first[1:], len(group))


def cauchy(value: Ints, middle: Ints, spread: Floats) -> Floats:
    """The density of the Cauchy distribution, moved to the middle and stretched: 1 / (π σ (1 + z²))."""
    distance: Floats = (value - middle) / spread
    return 1 / (np.pi * spread * (1 + distance * distance))


def nearer(group: Ints, distance: Ints) -> Ints:
    """How many values of the same group have a smaller distance than each value. Shapes (n,)."""
    order = sort_by(group, distance)
    number, begin, first, _ = _runs(group[order], distance[order])
    result = np.empty(len(order), np.int64)
    result[order] = first[number] - begin
    return result
