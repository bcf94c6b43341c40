"""Gaps: how far the facts of an entity lie apart, by both relations, roles, and ends; spikes count as spikes.

The date t of (s, r, o), its begin or its end, is compared with the dates t′ of all other facts of s, and of o. A *kind*
of gap is (relation and role of the entity in the fact, relation and role in the other, begin or end of the other); its
density p(t − t′) is learned from all facts (`densities`). Entities with many facts count less: 1 / √facts.

Each of the n other dates is an expert who says log(p / uniform) of every instant. Six ways to hear them:

    product   Σ log p · min(n, 2.5) / n, apart for other facts of the same relation and role, and for the rest
    mixture   log of the mean of p
    best      the largest of log p
    pool      Σ log p / √n
    sharpest  mean log p of the experts whose kind tells most on average, Σ p log(p / uniform): who knows when somebody
              went to school learns little of the birth from the first job, and would count the same twice
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.patterns import hashing
from timeplex.patterns.base import Because, Evidence, Pattern, Rows, Side, TimeQueries, register
from timeplex.patterns.densities import Buckets, buckets, smoothed, spikes, tables_of
from timeplex.typing import Bools, Features, Floats, Ints

HEARD = 2.5
"""So many independent experts are heard in full; more of them say no more than so many."""
MOST_KINDS = 4_000
"""Kinds with a table of their own; rarer ones share that of the relation and role alone."""
MOST_OTHERS = 256
"""At most so many other facts of an entity are looked at, evenly spread in the order of their dates."""
AS_SHARP = 1e-4
"""Kinds that tell so little less than another tell as much."""


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


@dataclass(frozen=True, eq=False)
class GapCounts:
    """How often gaps between the dates of facts and those of others fall into each bucket, by kind.

    codes   (kinds,), sorted: the kinds that have a table of their own, the most frequent ones
    counts  (kinds + shared tables, buckets): weighted; the shared ones, by relation and role, have all gaps of theirs
    seen    the same, each gap counted once
    """

    codes: Ints
    counts: Floats
    seen: NDArray[np.int32]

    @classmethod
    def of(
        cls, evidence: Evidence, side: Side, index: Rows, keys: Ints, rows: Ints, weight: Floats, shared: Ints
    ) -> "GapCounts":
        """From some rows of the evidence, each with a weight, to other rows of their keys in an index.

        keys and weight (rows,); shared (2R,): the shared table of each directed relation, none if it is empty.
        """
        date = evidence.begin if side == "begin" else evidence.end
        known = (date[rows] != spans.OPEN_BEGIN) & (date[rows] != spans.OPEN_END)
        rows, weight = rows[known], weight[known]
        start, stop = index.ranges(keys[known])
        of = buckets(evidence.granularity)
        others = index.place, start, stop, rows, evidence.r[rows]
        # In the order of the index, those of a key lie side by side; to read them here and there would take most time.
        r, begin, end = (column[index.order] for column in (evidence.r, evidence.begin, evidence.end))
        columns = r, begin, end, 2 * evidence.relations
        keys_of_codes, cases = _cases(*others, *columns)
        there = keys_of_codes != -1
        often = np.lexsort((keys_of_codes[there], -cases[there, 0]))[:MOST_KINDS]
        codes = np.sort(keys_of_codes[there][often])
        number = np.where(there, np.searchsorted(codes, keys_of_codes), -1)
        inside = np.append(codes, -1)[number] == keys_of_codes
        number = np.where(there & inside, number, -1)
        tables = len(codes) + int(shared.max(initial=-1)) + 1
        counts, seen = np.zeros((tables, len(of.width))), np.zeros((tables, len(of.width)), np.int32)
        shared = np.where(shared >= 0, shared + len(codes), shared)
        _histograms(*others, *columns, date[rows], weight, keys_of_codes, number, shared, of.of, counts, seen)
        return cls(codes, counts, seen)


@njit(cache=True, nogil=True)
def _others_of(place: Ints, start: int, stop: int, row: int, found: Ints) -> int:
    """Fill in where the other rows of a key stand, spread evenly, as `Rows.others` has them; how many there are."""
    twin = (row + len(place) // 2) % len(place)
    low, high = min(place[row], place[twin]), max(place[row], place[twin])
    low_inside, high_inside = start <= low < stop, start <= high < stop
    left = stop - start - low_inside - high_inside
    taken = min(left, len(found))
    for nth in range(taken):
        at = start + nth * left // taken
        at += low_inside and at >= low
        at += high_inside and at >= high
        found[nth] = at
    return int(taken)


@njit(cache=True, nogil=True)
def _cases(
    place: Ints,
    start: Ints,
    stop: Ints,
    rows: Ints,
    of: Ints,
    r: Ints,
    begin: Ints,
    end: Ints,
    directed: int,
) -> hashing.Table:
    """How many gaps there are of each kind, from rows of the relations `of`: a hash table by code."""
    (keys, cases), used = hashing.empty(1), 0
    found = np.empty(MOST_OTHERS, np.int64)
    for at in range(len(rows)):
        for nth in range(_others_of(place, start[at], stop[at], rows[at], found)):
            other = found[nth]
            for anchor in range(2):
                if not _has(begin[other], end[other], anchor):
                    continue
                code = (of[at] * directed + r[other]) * 2 + anchor
                slot = hashing.slot_of(keys, code)
                if keys[slot] == -1:
                    keys, cases = hashing.with_room(keys, cases, used)
                    slot = hashing.slot_of(keys, code)
                    keys[slot] = code
                    used += 1
                cases[slot, 0] += 1
    return keys, cases


@njit(cache=True, nogil=True)
def _has(begin: int, end: int, anchor: int) -> bool:
    """Whether a fact has a begin (0), or an end (1) of its own: what happened in an instant has one date."""
    if anchor == 0:
        return begin != spans.OPEN_BEGIN
    return end != spans.OPEN_END and end != begin


@njit(cache=True, nogil=True)
def _histograms(
    place: Ints,
    start: Ints,
    stop: Ints,
    rows: Ints,
    of: Ints,
    r: Ints,
    begin: Ints,
    end: Ints,
    directed: int,
    date: Ints,
    weight: Floats,
    keys: Ints,
    number: Ints,
    shared: Ints,
    bucket: Ints,
    counts: Floats,
    seen: NDArray[np.int32],
) -> None:
    """Count the gaps of each kind: in the table `number` of its slot, and in the one its relation shares."""
    found, reach = np.empty(MOST_OTHERS, np.int64), len(bucket) // 2
    for at in range(len(rows)):
        for nth in range(_others_of(place, start[at], stop[at], rows[at], found)):
            other = found[nth]
            for anchor in range(2):
                if not _has(begin[other], end[other], anchor):
                    continue
                gap = date[at] - (end[other] if anchor else begin[other])
                cell = bucket[min(max(gap, -reach), reach) + reach]
                kind = number[hashing.slot_of(keys, (of[at] * directed + r[other]) * 2 + anchor)]
                if kind >= 0:
                    counts[kind, cell] += weight[at]
                    seen[kind, cell] += 1
                if len(shared):
                    counts[shared[of[at]], cell] += weight[at]
                    seen[shared[of[at]], cell] += 1


class GapTables:
    """Densities by kind, fitted on the facts in `counted` (all, if None); the last rows are by relation and role."""

    def __init__(self, evidence: Evidence, side: Side, counted: Bools | None = None) -> None:
        self.evidence, self.side = evidence, side
        self.buckets: Buckets = buckets(evidence.granularity)
        self._directed = 2 * evidence.relations
        counting = evidence.only(counted)
        first, past = counting.by_entity.ranges(counting.x)
        weight = 1 / np.sqrt(np.maximum(past - first - 1, 1))
        rows = np.arange(2 * len(counting))
        self.by_relation = tables_of(counting.r, self._directed)
        found = GapCounts.of(counting, side, counting.by_entity, counting.x, rows, weight, self.by_relation)
        self.codes, self.seen = found.codes, found.seen
        self.table = smoothed(found.counts, self.buckets.width)
        self.share = np.exp(self.table)
        self.told = (self.share * self.table) @ (self.buckets.width / self.buckets.width.sum())

    def _code(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        return (r * self._directed + other) * 2 + anchor

    def kinds(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        """The row of the table for gaps between a fact of r and another of `other`, at its begin or end: (n,)."""
        code = self._code(r, other, anchor)
        shared = len(self.codes) + self.by_relation[r]
        if len(self.codes) == 0:
            return shared
        where = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return np.where(self.codes[where] == code, where, shared)

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
def _sharpest(kind: Ints, told: Floats) -> Floats:
    """The share of each expert among those whose kind tells most, (experts,), in sum 1."""
    most = -np.inf
    for expert in range(len(kind)):
        most = max(most, told[kind[expert]])
    share = np.zeros(len(kind))
    for expert in range(len(kind)):
        share[expert] = 1.0 * (told[kind[expert]] > most - AS_SHARP)
    share /= max(share.sum(), 1.0)
    return share


@njit(cache=True, nogil=True)
def _hear(
    start: Ints,
    kind: Ints,
    at: Ints,
    same: Bools,
    table: Features,
    share: Features,
    told: Floats,
    bucket: Ints,
    axis: Ints,
    rows: Features,
) -> None:
    """Fill rows (n, 6, instants): product of the same, product of others, mixture, best, pool, sharpest."""
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
        alike, sharpest = 0, _sharpest(kind[low:high], told)
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
                rows[query, 5, place] += sharpest[expert - low] * value
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


HEARINGS = ("same relation", "other relations", "mixture", "best", "pool", "sharpest")


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
        begin = GapTables(evidence, "begin", counted)
        of_events = np.array_equal(evidence.facts.begin, evidence.facts.end)
        self.tables = {"begin": begin, "end": begin if of_events else GapTables(evidence, "end", counted)}

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 12, instants): the six hearings of the subject's facts, then of the object's."""
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
                tables.told,
                tables.buckets.of,
                axis,
                rows[:, len(HEARINGS) * at : len(HEARINGS) * (at + 1)],
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
            values, first = np.zeros((count, len(self.year_features))), len(HEARINGS) * which
            for place, heard in ((0, alike), (1, ~alike)):
                values[heard, first + place] = value[heard] * min(heard.sum(), HEARD) / max(heard.sum(), 1)
            values[:, first + 2] = np.log(density.mean()) * density / density.sum()
            values[value.argmax(), first + 3] = value.max()
            values[:, first + 4] = value / np.sqrt(count)
            values[:, first + 5] = value * _sharpest(experts.kind, tables.told)
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
