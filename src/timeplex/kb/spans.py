"""Spans of time, vectorised: volume, intersection, hull and union.

A span is a begin and an end instant, both inclusive, given as two integer arrays that broadcast.
An open (unknown) begin is `OPEN_BEGIN`, an open end is `OPEN_END`: the least and the greatest 32-bit
integer, so that comparisons treat them as minus and plus infinity. No calendar date has these values.
An *empty* span (the intersection of disjoint ones) has begin > end.

>>> volume((1990, 1995))
np.float64(6.0)
>>> intersection((1990, 1995), (1993, 2001))
(np.int64(1993), np.int64(1995))
"""

import numpy as np
from numpy.typing import ArrayLike

from timeplex.typing import Bools, Floats, Ints

OPEN_BEGIN = int(np.iinfo(np.int32).min)
OPEN_END = int(np.iinfo(np.int32).max)

Span = tuple[ArrayLike, ArrayLike]


def _ints(values: ArrayLike) -> Ints:
    return np.asarray(values, dtype=np.int64)


def _floats(values: ArrayLike) -> Floats:
    """As floats, with open ends as the infinities they stand for."""
    ints = _ints(values)
    floats = ints.astype(np.float64)
    floats[ints == OPEN_BEGIN] = -np.inf
    floats[ints == OPEN_END] = np.inf
    return floats


def is_open(span: Span) -> tuple[Bools, Bools]:
    """Which begins and which ends are open."""
    return _ints(span[0]) == OPEN_BEGIN, _ints(span[1]) == OPEN_END


def close(span: Span, first: ArrayLike, last: ArrayLike) -> tuple[Ints, Ints]:
    """The span with its open ends replaced by `first` and `last`."""
    begin, end = _ints(span[0]), _ints(span[1])
    return np.where(begin == OPEN_BEGIN, first, begin), np.where(end == OPEN_END, last, end)


def volume(span: Span) -> Floats:
    """Number of instants in the span: end − begin + 1; 0 if empty, infinite if open."""
    length: Floats = _floats(span[1]) - _floats(span[0]) + 1
    return np.maximum(length, 0)


def intersection(a: Span, b: Span) -> tuple[Ints, Ints]:
    """The instants that are in both; begin > end where there are none."""
    return np.maximum(_ints(a[0]), _ints(b[0])), np.minimum(_ints(a[1]), _ints(b[1]))


def hull(a: Span, b: Span) -> tuple[Ints, Ints]:
    """The smallest span that holds both."""
    return np.minimum(_ints(a[0]), _ints(b[0])), np.maximum(_ints(a[1]), _ints(b[1]))


def union(span: Span, group: ArrayLike | None = None) -> tuple[Ints, Ints, Ints]:
    """The union of all given spans, a group apart, as disjoint spans sorted by group and begin.

    Spans that overlap or touch (end + 1 = begin) become one, empty ones add nothing. Returns (begin, end,
    group). Shapes: (n,) in, (m,) out with m ≤ n.

    >>> union(([1990, 1993, 2000], [1992, 1995, 2001]))[:2]
    (array([1990, 2000]), array([1995, 2001]))
    """
    begin, end = np.atleast_1d(_ints(span[0])), np.atleast_1d(_ints(span[1]))
    groups = np.zeros(len(begin), np.int64) if group is None else np.atleast_1d(_ints(group))
    order = np.lexsort((begin, groups))
    order = order[(begin <= end)[order]]
    begin, end, groups = begin[order], end[order], groups[order]
    if len(begin) == 0:
        return begin, end, groups
    # Lifting each group above the one before makes one running maximum serve all groups at once.
    _, rank = np.unique(groups, return_inverse=True)
    lift = rank * (1 << 34)
    reach = np.maximum.accumulate(end + lift)
    starts = np.ones(len(begin), bool)
    starts[1:] = (begin + lift)[1:] > reach[:-1] + 1
    last = np.append(np.flatnonzero(starts)[1:] - 1, len(begin) - 1)
    return begin[starts], (reach - lift)[last], groups[starts]
