"""Durations: how long facts of a relation last, and who comes next; what is said of an end once the begin is known.

Of an end e after a begin b:

    duration   log(p_r(e − b) / uniform), densities of the relation's durations, shrunk to those of all relations
    next       log q(begin of the next fact of the slot − e), by the densities of `successions`, from subject and object
    overlap    log(1 + instants that e lies after it)
"""

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Evidence, TimeQueries
from timeplex.patterns.densities import buckets, smoothed
from timeplex.patterns.slots import Slots
from timeplex.patterns.successions import SuccessionTables
from timeplex.typing import Bools, Features, Ints

ALL_CASES = 5.0
"""All relations together count as so many cases of each."""


@njit(cache=True)
def _next(start: Ints, begins: Ints, begin: Ints, found: Ints) -> None:
    """The first begin of each slot after each of the begins (n, m); −1: none. Slots are in order."""
    for query in range(len(start) - 1):
        here = begins[start[query] : start[query + 1]]
        for at in range(begin.shape[1]):
            place = np.searchsorted(here, begin[query, at], side="right")
            found[query, at] = place + start[query] if place < len(here) else -1


class Durations:
    """What is said of ends, given begins."""

    end_features = ("duration", *(f"{x} {what}" for x in ("subject", "object") for what in ("next", "overlap")))

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        self.evidence = evidence
        self._buckets = buckets(evidence.granularity)
        self.slots = Slots(evidence)
        self.successions = SuccessionTables(evidence, counted)
        facts = evidence.facts
        closed = facts.closed if counted is None else facts.closed & counted
        length = facts.end[closed].astype(np.int64) - facts.begin[closed]
        width = len(self._buckets.width)
        cell = facts.r[closed] * width + self._buckets(length)
        counts = np.bincount(cell, minlength=evidence.relations * width).reshape(-1, width).astype(float)
        everywhere = counts.sum(0)
        self.table = smoothed(counts + ALL_CASES * everywhere / max(everywhere.sum(), 1), self._buckets.width)

    def ends(self, queries: TimeQueries, begin: Ints) -> Features:
        """(n, m, 5, axis) for begins (n, m), calendar instants; without meaning before the begin."""
        axis, relations = self.evidence.axis, self.evidence.relations
        rows = np.zeros((*begin.shape, len(self.end_features), len(axis)), np.float32)
        gap = axis - begin[:, :, None]
        rows[:, :, 0] = self.table[queries.r[:, None, None], self._buckets(gap)]
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + relations))):
            start, row = self.slots.others(x, r, queries.own)
            begins = self.evidence.begin[row]
            found = np.empty(begin.shape, np.int64)
            _next(start, begins, begin, found)
            following = np.where(found >= 0, np.append(begins, 0)[found], spans.OPEN_END)[:, :, None]
            known = following != spans.OPEN_END
            gap = self._buckets(np.where(known, following - axis, 0))
            said = self.successions.from_end[r[:, None, None], gap]
            rows[:, :, 2 * at + 1] = np.where(known, said, 0)
            rows[:, :, 2 * at + 2] = np.where(known, np.log1p(np.maximum(axis - following, 0)), 0)
        return rows
