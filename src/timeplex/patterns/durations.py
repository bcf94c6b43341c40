"""Durations: how long facts of a relation last, and who comes next; what is said of an end once the begin is known.

Of an end e after a begin b:

    duration   log(p_r(e − b) / uniform), densities of the relation's durations, shrunk to those of all relations
    next       whether e is where the next fact of the slot begins (from subject, and from object)
    eve        whether e is the instant before that
    overlap    log(1 + instants that e lies after it)
"""

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Evidence, TimeQueries
from timeplex.patterns.densities import buckets, smoothed, spikes
from timeplex.patterns.slots import Slots
from timeplex.typing import Bools, Features, Floats, Ints

ALL_CASES = 5.0
"""All relations together count as so many cases of each."""


@njit(cache=True, nogil=True)
def _next(start: Ints, begins: Ints, begin: Ints, found: Ints) -> None:
    """The first begin of each slot after each of the begins (n, m); −1: none. Slots are in order."""
    for query in range(len(start) - 1):
        here = begins[start[query] : start[query + 1]]
        for at in range(begin.shape[1]):
            place = np.searchsorted(here, begin[query, at], side="right")
            found[query, at] = place + start[query] if place < len(here) else -1


class Durations:
    """What is said of ends, given begins."""

    end_features = ("duration", *(f"{x} {what}" for x in ("subject", "object") for what in ("next", "eve", "overlap")))

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        self.evidence = evidence
        self.buckets = buckets(evidence.granularity)
        self.slots = Slots(evidence)
        facts = evidence.facts
        closed = facts.closed if counted is None else facts.closed & counted
        length = facts.end[closed].astype(np.int64) - facts.begin[closed]
        width = len(self.buckets.width)
        cell = facts.r[closed] * width + self.buckets(length)
        counts = np.bincount(cell, minlength=evidence.relations * width).reshape(-1, width).astype(float)
        self.counts = counts
        everywhere = counts.sum(0)
        self.table = smoothed(counts + ALL_CASES * everywhere / max(everywhere.sum(), 1), self.buckets.width)

    def ends(self, queries: TimeQueries, begin: Ints) -> Features:
        """(n, m, 7, instants) for begins (n, m), calendar instants; without meaning before the begin."""
        axis = queries.instants(self.evidence)[:, None]
        rows = np.zeros((*begin.shape, len(self.end_features), axis.shape[-1]), np.float32)
        gap = axis - begin[:, :, None]
        rows[:, :, 0] = self.table[queries.r[:, None, None], self.buckets(gap)]
        following = self.successors(queries, begin)
        for at in range(2):
            after = following[:, :, at, None]
            known = after != spans.OPEN_END
            rows[:, :, 3 * at + 1] = known & (axis == after)
            rows[:, :, 3 * at + 2] = known & (axis == after - 1)
            rows[:, :, 3 * at + 3] = np.where(known, np.log1p(np.maximum(axis - after, 0)), 0)
        return rows

    def successors(self, queries: TimeQueries, begin: Ints) -> Ints:
        """The first begin after each of begins (n, m) in the slots of subject and object, `spans.OPEN_END` if none.

        (n, m, 2), calendar instants.
        """
        following = np.empty((*begin.shape, 2), np.int64)
        relations = self.evidence.relations
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + relations))):
            start, row = self.slots.others(x, r, queries.own)
            begins = self.evidence.begin[row]
            found = np.empty(begin.shape, np.int64)
            _next(start, begins, begin, found)
            following[:, :, at] = np.where(found >= 0, np.append(begins, 0)[found], spans.OPEN_END)
        return following

    def points(self, queries: TimeQueries, begin: Ints) -> Ints:
        """The ends after the usual durations, and next to the next begins, of begins (n, m): (n, some)."""
        usual = begin[:, :, None] + spikes(self.table[queries.r], self.buckets)[:, None]
        following = self.successors(queries, begin)
        following = np.where(following == spans.OPEN_END, begin[:, :, None], following)
        return np.concatenate([usual, following, following - 1, begin[:, :, None]], 2).reshape(len(begin), -1)

    def points_before(self, queries: TimeQueries, end: Ints) -> Ints:
        """The begins from which the usual durations lead to ends (n,): (n, some)."""
        return np.asarray(end[:, None] - np.maximum(spikes(self.table[queries.r], self.buckets), 0))


@njit(cache=True, nogil=True)
def ends_given(
    alone: Floats,
    width: Ints,
    axis: Ints,
    r: Ints,
    weights: Floats,
    places: Ints,
    likely: Floats,
    following: Ints,
    table: Features,
    bucket: Ints,
    no_end: int,
    found: Floats,
) -> None:
    """Pr(end | begin) for likely begins, into found (n, m, instants): softmax of alone + the features of `ends`.

    alone (n, instants): logits of the end without the begin; weights (n, 7); places, likely (n, m): begins and their
    probabilities, 0 for those that need no look; following (n, m, 2): as `successors` has it.
    """
    farthest = len(bucket) - 1
    queries, begins, instants = found.shape
    log_width, row = np.empty(instants), np.empty(instants)
    for query in range(queries):
        here, wide = axis[query if len(axis) > 1 else 0], width[query if len(width) > 1 else 0]
        for place in range(instants):
            log_width[place] = np.log(wide[place]) if wide[place] > 0 else -np.inf
        for nth in range(begins):
            found[query, nth] = 0.0
            if likely[query, nth] <= 0:
                continue
            low = places[query, nth]
            shift = farthest // 2 - here[low]
            most = -np.inf
            for place in range(low, instants):
                said = table[r[query], bucket[min(here[place] + shift, farthest)]] * weights[query, 0]
                row[place] = alone[query, place] + log_width[place] + said
            for which in range(2):
                after = following[query, nth, which]
                if after == no_end:
                    continue
                next_, eve, overlap = weights[query, 3 * which + 1 : 3 * which + 4]
                for place in range(low, instants):
                    late = here[place] - after
                    if late > 0:
                        row[place] += overlap * np.log1p(float(late))
                    elif late == 0:
                        row[place] += next_
                    elif late == -1:
                        row[place] += eve
            for place in range(low, instants):
                most = max(most, row[place])
            total = 0.0
            for place in range(low, instants):
                row[place] = np.exp(row[place] - most)
                total += row[place]
            for place in range(low, instants):
                found[query, nth, place] = row[place] / total
