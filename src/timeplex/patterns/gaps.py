"""Gaps: how far the facts of an entity lie apart, by both relations, roles, and ends; spikes count as spikes.

The date t of (s, r, o), its begin or its end, is compared with the dates t′ of all other facts of s, and of o. A *kind*
of gap is (relation and role of the entity in the fact, relation and role in the other, begin or end of the other); its
density p(t − t′) is learned from all facts (`densities`). Entities with many facts count less: 1 / √facts.

Each of the n other dates is an expert who says log(p / uniform) of every instant. Five ways to hear them:

    product   Σ log p · min(n, 2.5) / n, apart for other facts of the same relation and role, and for the rest
    mixture   log of the mean of p
    best      the largest of log p
    pool      Σ log p / √n
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.patterns.base import Because, Evidence, Pattern, Rows, Side, TimeQueries, register
from timeplex.patterns.densities import Buckets, buckets, smoothed, spikes
from timeplex.typing import Bools, Features, Floats, Ints

HEARD = 2.5
"""So many independent experts are heard in full; more of them say no more than so many."""
MOST_KINDS = 8_000
"""Kinds with a table of their own; rarer ones share that of the relation and role alone."""
MOST_OTHERS = 256
"""At most so many other facts of an entity are looked at, evenly spread in the order of their dates."""


@dataclass(frozen=True, eq=False)
class Experts:
    """Other dates that say something of a query's date: for query i those from start[i] to start[i + 1].

    kind   row of the table of densities     at   the other date     same   whether of the same relation and role
    row    the row of the evidence (0 … 2n − 1)     anchor   0: its begin, 1: its end
    """

    start: Ints
    kind: Ints
    at: Ints
    same: Bools
    row: Ints
    anchor: Ints


class GapTables:
    """Densities by kind, fitted on the facts in `counted` (all, if None); the last rows are by relation and role."""

    def __init__(self, evidence: Evidence, side: Side, counted: Bools | None = None) -> None:
        self.evidence, self.side = evidence, side
        self.buckets: Buckets = buckets(evidence.granularity)
        self._directed = 2 * evidence.relations
        counting = evidence.only(counted)
        date = counting.begin if side == "begin" else counting.end
        target = np.flatnonzero((date != spans.OPEN_BEGIN) & (date != spans.OPEN_END))
        place, other, anchor, at = _others(counting, counting.x[target], target % max(len(counting), 1))
        row = target[place]
        r, other = counting.r[row], counting.r[other]
        codes, cases = np.unique(self._code(r, other, anchor), return_counts=True)
        self.codes = np.sort(codes[np.argsort(-cases, kind="stable")[:MOST_KINDS]])
        first, past = counting.by_entity.ranges(counting.x[row])
        weight = 1 / np.sqrt(np.maximum(past - first - 1, 1))
        kind, width = self.kinds(r, other, anchor), len(self.buckets.width)
        kinds = len(self.codes) + self._directed
        own = kind < len(self.codes)  # a rare kind has only the table of its relation and role, and counts there once
        cell = np.concatenate([kind[own], len(self.codes) + r]) * width
        cell += np.concatenate([(bucket := self.buckets(date[row] - at))[own], bucket])
        counts = np.bincount(cell, np.concatenate([weight[own], weight]), kinds * width).astype(float)
        self.table = smoothed(counts.reshape(kinds, width), self.buckets.width)
        self.share = np.exp(self.table)
        self.seen = np.bincount(cell, minlength=kinds * width).reshape(kinds, width)

    def _code(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        return (r * self._directed + other) * 2 + anchor

    def kinds(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        """The row of the table for gaps between a fact of r and another of `other`, at its begin or end: (n,)."""
        code = self._code(r, other, anchor)
        if len(self.codes) == 0:
            return r
        where = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return np.where(self.codes[where] == code, where, len(self.codes) + r)

    def experts(self, x: Ints, r: Ints, own: Ints) -> Experts:
        """What the other facts of entities x say of facts in which they have the directed relations r: (n,)."""
        place, row, anchor, at = _others(self.evidence, x, own)
        order = np.argsort(place, kind="stable")
        place, row, anchor, at = place[order], row[order], anchor[order], at[order]
        start = np.searchsorted(place, np.arange(len(x) + 1))
        other = self.evidence.r[row]
        return Experts(start, self.kinds(r[place], other, anchor), at, other == r[place], row, anchor)


def _others(evidence: Evidence, x: Ints, own: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """All (place in x, row of another fact of that entity, 0 begin or 1 end, its date)."""
    return dates_of(evidence, *some_matches(evidence.by_entity, x, own))


def dates_of(evidence: Evidence, place: Ints, row: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The known dates of rows: (place, row, 0 begin or 1 end, date); what happened in an instant has one date."""
    begin, end = evidence.begin[row], evidence.end[row]
    ends = (end != spans.OPEN_END) & (end != begin)
    begins = begin != spans.OPEN_BEGIN
    anchor = np.repeat([0, 1], [begins.sum(), ends.sum()])
    at = np.concatenate([begin[begins], end[ends]])
    return np.concatenate([place[begins], place[ends]]), np.concatenate([row[begins], row[ends]]), anchor, at


def some_matches(index: Rows, keys: Ints, own: Ints) -> tuple[Ints, Ints]:
    """At most `MOST_OTHERS` rows a key, spread over all it has, without the query's own fact."""
    return index.others(keys, own, MOST_OTHERS)


@njit(cache=True, nogil=True)
def _hear(
    start: Ints,
    kind: Ints,
    at: Ints,
    same: Bools,
    table: Features,
    share: Features,
    bucket: Ints,
    axis: Ints,
    rows: Features,
) -> None:
    """Fill rows (n, 5, instants): product of the same, product of others, mixture, best, pool."""
    instants, farthest = axis.shape[1], len(bucket) - 1
    sums = np.empty((2, instants))  # of others, of the same
    mixture, best = np.empty(instants), np.empty(instants, np.float32)
    for query in range(len(start) - 1):
        low, high = start[query], start[query + 1]
        if high == low:
            continue
        here = axis[query if len(axis) > 1 else 0]
        sums[:] = 0.0
        mixture[:] = 0.0
        best[:] = -np.inf
        alike = 0
        for expert in range(low, high):
            which = 1 if same[expert] else 0
            alike += which
            shift, row = farthest // 2 - at[expert], kind[expert]
            for place in range(instants):
                cell = bucket[min(max(here[place] + shift, 0), farthest)]
                value = table[row, cell]
                sums[which, place] += value
                mixture[place] += share[row, cell]
                best[place] = max(best[place], value)
        count = high - low
        others = count - alike
        alike_share = min(alike, HEARD) / max(alike, 1)
        other_share = min(others, HEARD) / max(others, 1)
        for place in range(instants):
            rows[query, 0, place] = sums[1, place] * alike_share
            rows[query, 1, place] = sums[0, place] * other_share
            rows[query, 2, place] = np.log(mixture[place] / count)
            rows[query, 3, place] = best[place]
            rows[query, 4, place] = (sums[0, place] + sums[1, place]) / np.sqrt(count)


HEARINGS = ("same relation", "other relations", "mixture", "best", "pool")


@dataclass(frozen=True)
class Habit:
    """How often facts lie just so far apart, of how many; between `low` and `high` lie four fifths of them.

    `holds` is 0 where gaps are counted in buckets of several instants: nobody knows how many are just so long.
    """

    holds: int
    cases: int
    low: int
    high: int


def habit(seen: NDArray[np.integer[Any]], of: Buckets, gap: int) -> Habit:
    """The habit behind a gap, from the counts of its kind, (buckets,)."""
    total = int(seen.sum())
    gaps = np.full(len(of.width), np.iinfo(np.int64).max)
    np.minimum.at(gaps, of.of, np.arange(-of.reach, of.reach + 1))
    order = np.argsort(gaps)
    up_to = np.cumsum(seen[order])
    low, high = (int(gaps[order[np.searchsorted(up_to, share * total)]]) for share in (0.1, 0.9)) if total else (0, 0)
    bucket = int(of(np.array([gap]))[0])
    return Habit(int(seen[bucket]) if of.width[bucket] == 1 else 0, total, low, high)


@register("gaps")
class Gaps(Pattern):
    """What the other facts of subject and object say of a date by the usual gaps."""

    year_features = tuple(f"{entity} {hearing}" for entity in ("subject", "object") for hearing in HEARINGS)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        self.tables = {side: GapTables(evidence, side, counted) for side in ("begin", "end")}

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 10, instants): the five hearings of the subject's facts, then of the object's."""
        tables, axis = self.tables[side], queries.instants(self.evidence)
        rows = np.zeros((len(queries), len(self.year_features), axis.shape[1]), np.float32)
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + self.evidence.relations))):
            experts = tables.experts(x, r, queries.own)
            _hear(
                experts.start,
                experts.kind,
                experts.at,
                experts.same,
                tables.table,
                tables.share,
                tables.buckets.of,
                axis,
                rows[:, 5 * at : 5 * at + 5],
            )
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """Each other date's share: of a mixture by its density, of the best all or nothing."""
        tables, instant = self.tables[side], int(query.instants(self.evidence)[0, at])
        found = []
        for which, (x, r) in enumerate(((query.s, query.r), (query.o, query.r + self.evidence.relations))):
            experts = tables.experts(x, r, query.own)
            count = len(experts.at)
            if not count:
                continue
            value = tables.table[experts.kind, tables.buckets(instant - experts.at)].astype(float)
            alike, density = experts.same, np.exp(value)
            values = np.zeros((count, len(self.year_features)))
            for place, heard in ((0, alike), (1, ~alike)):
                values[heard, 5 * which + place] = value[heard] * min(heard.sum(), HEARD) / max(heard.sum(), 1)
            values[:, 5 * which + 2] = np.log(density.mean()) * density / density.sum()
            values[value.argmax(), 5 * which + 3] = value.max()
            values[:, 5 * which + 4] = value / np.sqrt(count)
            for one in range(count):
                gap = instant - int(experts.at[one])
                usual = habit(tables.seen[experts.kind[one]], tables.buckets, gap)
                anchor: Side = "end" if experts.anchor[one] else "begin"
                row = int(experts.row[one])
                found.append(Because(row, values[one], gap, anchor, usual.holds, usual.cases, usual.low, usual.high))
        return found

    def points(self, queries: TimeQueries, side: Side) -> tuple[Ints, Ints, Floats]:
        """The usual gaps from the other dates of subject and object, those dates, and the instants next to them."""
        tables, found = self.tables[side], []
        for x, r in ((queries.s, queries.r), (queries.o, queries.r + self.evidence.relations)):
            experts = tables.experts(x, r, queries.own)
            place = np.repeat(np.arange(len(queries)), np.diff(experts.start))
            found.append(pointed(place, experts.kind, experts.at, tables.table, tables.buckets))
        place, at, strength = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return place, at, strength


def pointed(place: Ints, kind: Ints, at: Ints, table: Features, of: Buckets) -> tuple[Ints, Ints, Floats]:
    """The instants that experts of queries `place` point at, (query, instant, log p / uniform) of each."""
    kinds, which = np.unique(kind, return_inverse=True)
    near = np.broadcast_to(np.array([-1, 0, 1]), (len(kinds), 3))
    gaps = np.concatenate([spikes(table[kinds], of), near], 1)
    strength = np.take_along_axis(table[kinds], of(gaps), 1)[which]
    return np.repeat(place, gaps.shape[1]), (at[:, None] + gaps[which]).ravel(), np.maximum(strength, 0.01).ravel()
