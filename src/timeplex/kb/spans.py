"""Spans of time, vectorised: volume, intersection, hull, gap, union and Allen's relations.

A span is a begin and an end instant, both inclusive, given as two integer arrays that broadcast.
An open (unknown) begin is `OPEN_BEGIN`, an open end is `OPEN_END`: the least and the greatest 32-bit
integer, so that comparisons treat them as minus and plus infinity. No calendar date has these values.
An *empty* span (the intersection of disjoint ones) has begin > end.

>>> gap((1990, 1995), (1999, 2001))
np.float64(3.0)
>>> ALLEN[allen((1990, 1995), (1996, 2001))]
'meets'
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timeplex.typing import Bools, Floats, Ints

OPEN_BEGIN = int(np.iinfo(np.int32).min)
OPEN_END = int(np.iinfo(np.int32).max)

Span = tuple[ArrayLike, ArrayLike]

ALLEN = (
    "before",
    "meets",
    "overlaps",
    "finished-by",
    "contains",
    "starts",
    "equals",
    "started-by",
    "during",
    "finishes",
    "overlapped-by",
    "met-by",
    "after",
)
"""Names of Allen's thirteen relations; `allen` answers with positions in this tuple.

The inverse of relation k is relation 12 - k.
"""


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


def gap(a: Span, b: Span) -> Floats:
    """Number of instants strictly between the two; 0 if they overlap or touch."""
    begin, end = intersection(a, b)
    return np.maximum(_floats(begin) - _floats(end) - 1, 0)


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


def allen(a: Span, b: Span) -> NDArray[np.int8]:
    """Which of Allen's thirteen relations holds between a and b (a position in `ALLEN`).

    Ends are inclusive, so a *meets* b when b begins at the instant after a's end. An open end counts as
    infinite: two open ends are equal.
    """
    a_begin, a_end, b_begin, b_end = np.broadcast_arrays(_ints(a[0]), _ints(a[1]), _ints(b[0]), _ints(b[1]))
    begins, ends = np.sign(a_begin - b_begin), np.sign(a_end - b_end)
    # 3 × 3 ways in which begins and ends compare, for spans that share an instant:
    #                 a ends first      together             a ends last
    table = np.array(
        [
            [ALLEN.index("overlaps"), ALLEN.index("finished-by"), ALLEN.index("contains")],
            [ALLEN.index("starts"), ALLEN.index("equals"), ALLEN.index("started-by")],
            [ALLEN.index("during"), ALLEN.index("finishes"), ALLEN.index("overlapped-by")],
        ],
        np.int8,
    )
    shared = table[begins + 1, ends + 1]
    return np.select(
        [a_end + 1 < b_begin, a_end + 1 == b_begin, b_end + 1 == a_begin, b_end + 1 < a_begin],
        [np.int8(0), np.int8(1), np.int8(11), np.int8(12)],
        shared,
    )
