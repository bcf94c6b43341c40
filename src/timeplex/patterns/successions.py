"""Successions: how long after one fact of a slot the next one comes, and how long before the one after it.

The facts of a slot (a subject's, or an object's, in one relation; see `slots`) in the order of their begins are a
series. For every relation and role there are densities (`densities`) of the gap from one begin to the next, and from
one end to the next begin. An instant t between two facts of the slot has, as a begin,

    since begin   log p(t − begin of the one before)      since end   log q(t − its end)
    until begin   log p(begin of the one after − t)
    own since, own until   the same as since begin and until begin by the slot's own series, n gaps of which count as n,
                           and p as `OTHERS` gaps more

so that where games are held every four years, the year that is missing between two others stands out, and where one
head of a government follows another on the same day, that day does.
"""

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Because, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import buckets, smoothed, tables_of
from timeplex.patterns.gaps import habit
from timeplex.patterns.slots import Slots
from timeplex.typing import Bools, Features, Floats, Ints

OTHERS = 10.0
FEATURES = ("since begin", "since end", "until begin", "own since", "own until")


class SuccessionTables:
    """Densities of gaps between neighbours of a series, begin to begin and end to begin; relation r has table of[r]."""

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        self.buckets = buckets(evidence.granularity)
        evidence = evidence.only(counted)
        self.of = tables_of(evidence.r, 2 * evidence.relations)
        rows = np.flatnonzero(evidence.begin != spans.OPEN_BEGIN)
        rows = rows[np.lexsort((evidence.end[rows], evidence.begin[rows], evidence.r[rows], evidence.x[rows]))]
        one, two = rows[:-1], rows[1:]
        next_to = (evidence.x[one] == evidence.x[two]) & (evidence.r[one] == evidence.r[two])
        one, two = one[next_to], two[next_to]
        ended = evidence.end[one] != spans.OPEN_END
        self.seen: dict[Side, Ints] = {
            "begin": self._counts(evidence, one, two, evidence.begin),
            "end": self._counts(evidence, one[ended], two[ended], evidence.end),
        }
        self.from_begin, self.from_end = (
            smoothed(seen.astype(float), self.buckets.width) for seen in self.seen.values()
        )

    def _counts(self, evidence: Evidence, one: Ints, two: Ints, date: Ints) -> Ints:
        """How often gaps fall into each bucket: (tables, buckets)."""
        width = len(self.buckets.width)
        cell = self.of[evidence.r[one]] * width + self.buckets(evidence.begin[two] - date[one])
        return np.bincount(cell, minlength=(self.of.max(initial=-1) + 1) * width).reshape(-1, width)


@njit(cache=True, nogil=True)
def _series(
    start: Ints,
    r: Ints,
    begins: Ints,
    ends: Ints,
    axis: Ints,
    from_begin: Features,
    from_end: Features,
    bucket: Ints,
    uniform: Floats,
    no_begin: int,
    no_end: int,
    rows: Features,
) -> None:
    reach = (len(bucket) - 1) // 2
    own = np.zeros(from_begin.shape[1])
    for query in range(len(start) - 1):
        low, high = start[query], start[query + 1]
        while low < high and begins[low] == no_begin:  # open begins come first
            low += 1
        if low == high:
            continue
        own[:] = 0.0
        for fact in range(low + 1, high):
            own[bucket[min(begins[fact] - begins[fact - 1], reach) + reach]] += 1.0
        gaps = high - low - 1.0
        for at in range(len(own)):
            if gaps:
                usual = np.exp(from_begin[r[query], at])
                own[at] = np.log((own[at] / uniform[at] + OTHERS * usual) / (gaps + OTHERS))
        here = axis[query if len(axis) > 1 else 0]
        for place in range(len(here)):
            after = low + np.searchsorted(begins[low:high], here[place], side="right")
            if after > low:
                gap = bucket[min(here[place] - begins[after - 1], reach) + reach]
                rows[query, 0, place] = from_begin[r[query], gap]
                rows[query, 3, place] = own[gap]
                if ends[after - 1] != no_end:
                    gap = bucket[max(min(here[place] - ends[after - 1], reach), -reach) + reach]
                    rows[query, 1, place] = from_end[r[query], gap]
            if after < high:
                gap = bucket[min(begins[after] - here[place], reach) + reach]
                rows[query, 2, place] = from_begin[r[query], gap]
                rows[query, 4, place] = own[gap]


@register("successions")
class Successions(Pattern):
    """What the facts before and after in the slots of subject and object say of a begin."""

    year_features = tuple(f"{entity} {feature}" for entity in ("subject", "object") for feature in FEATURES)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence, counted)
        self.slots = Slots(evidence)
        self.tables = SuccessionTables(evidence, counted)

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 10, axis); of an end it says nothing (`durations` does)."""
        evidence, tables, per = self.evidence, self.tables, len(FEATURES)
        axis = queries.instants(evidence)
        rows = np.zeros((len(queries), len(self.year_features), axis.shape[1]), np.float32)
        if side == "end":
            return rows
        uniform = tables.buckets.width / tables.buckets.width.sum()
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + evidence.relations))):
            start, row = self.slots.others(x, r, queries.own)
            _series(
                start,
                tables.of[r],
                evidence.begin[row],
                evidence.end[row],
                axis,
                tables.from_begin,
                tables.from_end,
                tables.buckets.of,
                uniform,
                spans.OPEN_BEGIN,
                spans.OPEN_END,
                rows[:, per * at : per * (at + 1)],
            )
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """What the fact before, and the fact after, stand for."""
        evidence, per, found = self.evidence, len(FEATURES), []
        said, instant = self.years(query, side)[0, :, at].astype(float), int(query.instants(evidence)[0, at])
        for which, (x, r) in enumerate(((query.s, query.r), (query.o, query.r + evidence.relations))):
            _, row = self.slots.others(x, r, query.own)
            row = row[evidence.begin[row] != spans.OPEN_BEGIN]
            after = int(np.searchsorted(evidence.begin[row], instant, side="right"))
            for neighbour, features in ((after - 1, (0, 1, 3)), (after, (2, 4))):
                if 0 <= neighbour < len(row):
                    values = np.zeros(len(said))
                    places = [per * which + feature for feature in features]
                    values[places] = said[places]
                    fact = int(row[neighbour])
                    ended = neighbour < after and evidence.end[fact] != spans.OPEN_END
                    anchor: Side = "end" if ended else "begin"
                    gap = instant - int(evidence.end[fact] if ended else evidence.begin[fact])
                    forward = gap if neighbour < after else -gap
                    usual = habit(self.tables.seen[anchor][int(self.tables.of[r[0]])], self.tables.buckets, forward)
                    edges = (usual.low, usual.high) if neighbour < after else (-usual.high, -usual.low)
                    found.append(Because(fact, values, gap, anchor, usual.holds, usual.cases, *edges))
        return found
