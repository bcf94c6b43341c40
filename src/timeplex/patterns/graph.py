"""The facts of the evidence as a graph that compiled code can walk, and the buckets that gaps of time fall into.

Every fact is an edge from its subject and one from its object, as in `Evidence`. Edges are sorted by entity, relation,
other entity and dates, so that nothing depends on the order of the facts, not even how sums are rounded.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.typing import Ints

NO_DATE = np.iinfo(np.int32).max
"""The date of an edge, or of a question, that has none; the same as `spans.OPEN_END`."""

EDGES = {
    Granularity.YEAR: (1, 4, 10, 25),
    Granularity.MONTH: (1, 12, 60, 300),
    Granularity.DAY: (7, 90, 730, 9131),
}
"""The last gap of each bucket but the outermost, on both sides of 0, which is a bucket of its own."""

BUCKETS = 12
"""−26 and less, −25…−11, −10…−5, −4…−2, −1, 0, 1, 2…4, 5…10, 11…25, 26 and more; the last: a date is not known."""


class Graph(NamedTuple):
    """Edges of entity x are start[x] … start[x + 1] − 1: relation r (directed), other entity y, dates, its fact."""

    start: Ints
    r: NDArray[np.int32]
    y: NDArray[np.int32]
    date: NDArray[np.int32]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    fact: NDArray[np.int32]
    bounds: Ints  # of gap buckets: gap g is in bucket #{bounds < g}


def graph(x: Ints, r: Ints, y: Ints, begin: Ints, end: Ints, entities: int, granularity: Granularity) -> Graph:
    """The graph of 2n directed rows, of which i and i + n are one fact."""
    order = np.lexsort((end, begin, y, r, x))
    start = np.searchsorted(x[order], np.arange(entities + 1))
    date = np.where(begin != spans.OPEN_BEGIN, begin, end)
    fact = order % max(len(x) // 2, 1)
    columns = [column.astype(np.int32) for column in (r[order], y[order], date[order], begin[order], end[order], fact)]
    return Graph(start, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], bounds(granularity))


def bounds(granularity: Granularity) -> Ints:
    """The last gap of each bucket but the last: (10,)."""
    edges = np.array(EDGES[granularity])
    return np.concatenate([-edges[::-1] - 1, [-1, 0], edges])


@njit(cache=True)
def bucket(limits: Ints, date: int, other: int) -> int:
    """The bucket of date − other: how long `other` lies before `date`."""
    if date == NO_DATE or other == NO_DATE:
        return BUCKETS - 1
    gap = date - other
    place = 0
    while place < len(limits) and limits[place] < gap:
        place += 1
    return place


@njit(cache=True)
def edges_of(links: Graph, entity: int, relation: int) -> tuple[int, int]:
    """(first, last + 1) of the edges of an entity that have this relation."""
    low, high = links.start[entity], links.start[entity + 1]
    first = low + np.searchsorted(links.r[low:high], relation)
    return first, low + np.searchsorted(links.r[low:high], relation, side="right")
