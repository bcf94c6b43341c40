"""Gaps: how far the facts of an entity lie apart, by both relations, roles, and ends; spikes count as spikes.

The date t of (s, r, o), its begin or its end, is compared with the dates t′ of all other facts of s, and of o. A *kind*
of gap is (relation and role of the entity in the fact, relation and role in the other, begin or end of the other); its
density p(t − t′) is learned from all facts (`densities`). Entities with many facts count less: 1 / √facts.

Each of the n other dates is an expert who says log(p / uniform) of every instant. Four ways to hear them:

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
from timeplex.kb.facts import Index
from timeplex.patterns.base import Because, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import Buckets, buckets, smoothed
from timeplex.typing import Bools, Features, Ints

HEARD = 2.5
"""So many independent experts are heard in full; more of them say no more than so many."""
MOST_KINDS = 20_000
"""Kinds with a table of their own; rarer ones share that of the relation and role alone."""
MOST_OTHERS = 256
"""At most so many other facts of an entity are looked at (those next to each other in an order like chance)."""


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
        date = _dates(evidence, side)
        known = (date != spans.OPEN_BEGIN) & (date != spans.OPEN_END)
        if counted is not None:
            known &= np.tile(counted, 2)
        target = np.flatnonzero(known)
        place, other, anchor, at = self._others(evidence.x[target], target % len(evidence))
        if counted is not None:
            kept = counted[other % len(evidence)]
            place, other, anchor, at = place[kept], other[kept], anchor[kept], at[kept]
        row = target[place]
        code = self._code(evidence.r[row], evidence.r[other], anchor)
        codes, cases = np.unique(code, return_counts=True)
        frequent = np.sort(codes[np.argsort(-cases, kind="stable")[:MOST_KINDS]])
        self.codes = frequent
        first, past = evidence.by_entity.ranges(evidence.x[row])
        weight = 1 / np.sqrt(np.maximum(past - first - 1, 1))
        width = len(self.buckets.width)
        bucket = self.buckets(date[row] - at)
        counts = np.zeros((len(frequent) + self._directed, width))
        kind = self.kinds(evidence.r[row], evidence.r[other], anchor)
        np.add.at(counts.reshape(-1), kind * width + bucket, weight)
        np.add.at(counts.reshape(-1), (len(frequent) + evidence.r[row]) * width + bucket, weight)
        self.table = smoothed(counts, self.buckets.width)
        seen = np.bincount(kind * width + bucket, minlength=counts.size).astype(np.int32)
        seen += np.bincount((len(frequent) + evidence.r[row]) * width + bucket, minlength=counts.size).astype(np.int32)
        self.seen = seen.reshape(counts.shape)

    def _code(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        return (r * self._directed + other) * 2 + anchor

    def kinds(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        """The row of the table for gaps between a fact of r and another of `other`, at its begin or end: (n,)."""
        code = self._code(r, other, anchor)
        if len(self.codes) == 0:
            return r
        where = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return np.where(self.codes[where] == code, where, len(self.codes) + r)

    def _others(self, x: Ints, own: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """All (place in x, row of another fact of that entity, 0 begin or 1 end, its date)."""
        evidence = self.evidence
        place, row = some_matches(evidence.by_entity, x)
        kept = row % max(len(evidence), 1) != own[place]
        place, row = place[kept], row[kept]
        begin, end = evidence.begin[row], evidence.end[row]
        ends = (end != spans.OPEN_END) & (end != begin)
        begins = begin != spans.OPEN_BEGIN
        place = np.concatenate([place[begins], place[ends]])
        at = np.concatenate([begin[begins], end[ends]])
        anchor = np.repeat([0, 1], [begins.sum(), ends.sum()])
        return place, np.concatenate([row[begins], row[ends]]), anchor, at

    def experts(self, x: Ints, r: Ints, own: Ints) -> Experts:
        """What the other facts of entities x say of facts in which they have the directed relations r: (n,)."""
        place, row, anchor, at = self._others(x, own)
        order = np.argsort(place, kind="stable")
        place, row, anchor, at = place[order], row[order], anchor[order], at[order]
        start = np.searchsorted(place, np.arange(len(x) + 1))
        other = self.evidence.r[row]
        return Experts(start, self.kinds(r[place], other, anchor), at, other == r[place], row, anchor)


def some_matches(index: Index, keys: Ints) -> tuple[Ints, Ints]:
    """`index.matches` with at most `MOST_OTHERS` rows a key, spread over all it has."""
    start, stop = index.ranges(keys)
    size = stop - start
    taken = np.minimum(size, MOST_OTHERS)
    place = np.repeat(np.arange(len(keys)), taken)
    nth = np.arange(len(place)) - np.repeat(np.cumsum(taken) - taken, taken)
    return place, index.order[start[place] + nth * size[place] // np.maximum(taken[place], 1)]


def _dates(evidence: Evidence, side: Side) -> Ints:
    return evidence.begin if side == "begin" else evidence.end


@njit(cache=True)
def _hear(
    start: Ints,
    kind: Ints,
    at: Ints,
    same: Bools,
    table: Features,
    bucket: Ints,
    axis: Ints,
    rows: Features,
) -> None:
    """Fill rows (n, 5, axis): product of the same, product of others, mixture, best, pool."""
    reach = (len(bucket) - 1) // 2
    for query in range(len(start) - 1):
        low, high = start[query], start[query + 1]
        if high == low:
            continue
        alike = 0
        for expert in range(low, high):
            alike += same[expert]
        count = high - low
        others = count - alike
        alike_share = min(alike, HEARD) / max(alike, 1)
        other_share = min(others, HEARD) / max(others, 1)
        for place in range(len(axis)):
            product = 0.0
            rest = 0.0
            mixture = 0.0
            best = -1e9
            for expert in range(low, high):
                gap = axis[place] - at[expert]
                gap = min(max(gap, -reach), reach)
                value = table[kind[expert], bucket[gap + reach]]
                if same[expert]:
                    product += value
                else:
                    rest += value
                mixture += np.exp(value)
                best = max(best, value)
            rows[query, 0, place] = product * alike_share
            rows[query, 1, place] = rest * other_share
            rows[query, 2, place] = np.log(mixture / count)
            rows[query, 3, place] = best
            rows[query, 4, place] = (product + rest) / np.sqrt(count)


HEARINGS = ("same relation", "other relations", "mixture", "best", "pool")


@dataclass(frozen=True)
class Habit:
    """How often facts lie just so far apart, of how many; between `low` and `high` lie four fifths of them."""

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
    return Habit(int(seen[of(np.array([gap]))[0]]), total, low, high)


@register("gaps")
class Gaps(Pattern):
    """What the other facts of subject and object say of a date by the usual gaps."""

    year_features = tuple(f"{entity} {hearing}" for entity in ("subject", "object") for hearing in HEARINGS)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        self.tables = {side: GapTables(evidence, side, counted) for side in ("begin", "end")}

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 10, axis): the five hearings of the subject's facts, then of the object's."""
        tables, axis = self.tables[side], self.evidence.axis
        rows = np.zeros((len(queries), len(self.year_features), len(axis)), np.float32)
        for at, (x, r) in enumerate(((queries.s, queries.r), (queries.o, queries.r + self.evidence.relations))):
            experts = tables.experts(x, r, queries.own)
            _hear(
                experts.start,
                experts.kind,
                experts.at,
                experts.same,
                tables.table,
                tables.buckets.of,
                axis,
                rows[:, 5 * at : 5 * at + 5],
            )
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """Each other date's share: of a mixture by its density, of the best all or nothing."""
        tables, instant = self.tables[side], int(self.evidence.axis[at])
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
