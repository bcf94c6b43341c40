"""Pairs: other facts between the same two entities, in the same direction or mirrored, and the gaps to them.

A marriage is stated from both sides with one span; who joins a club leaves it later. A kind of gap is (relation, other
relation, same or mirrored, begin or end of the other); densities as in `densities`. The best expert counts.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.kb.facts import pair_key
from timeplex.patterns.base import SIDES, Because, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import buckets, smoothed
from timeplex.patterns.gaps import GapCounts, dates_of, habit, pointed, some_matches
from timeplex.typing import Bools, Features, Floats, Ints


@register("pairs")
class Pairs(Pattern):
    """What other facts of the same two entities say of a date."""

    year_features = ("same pair", "mirrored pair")

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        self._buckets = buckets(evidence.granularity)
        self._index = evidence.rows_by(pair_key(evidence.x, evidence.y))
        self._codes: dict[str, Ints] = {}
        self.tables: dict[str, Features] = {}
        self._seen: dict[str, NDArray[np.int32]] = {}
        counting = evidence.only(counted)
        keys, rows = pair_key(counting.x, counting.y), np.arange(len(counting))
        index, alike, alone = counting.rows_by(keys), np.ones(len(rows)), np.empty(0, np.int64)
        for side in SIDES:
            found = GapCounts.of(counting, side, index, keys[: len(rows)], rows, alike, alone)
            self._codes[side], self._seen[side] = found.codes, found.seen
            self.tables[side] = smoothed(found.counts, self._buckets.width)

    def _code(self, r: Ints, other: Ints, anchor: Ints) -> Ints:
        return (r * 2 * self.evidence.relations + other) * 2 + anchor

    def _others(self, queries: TimeQueries) -> tuple[Ints, Ints, Ints, Ints]:
        """All (query, row of another fact of its pair as seen from its subject, 0 begin or 1 end, its date)."""
        keys = pair_key(queries.s, queries.o)
        return dates_of(self.evidence, *some_matches(self._index, keys, queries.own))

    def _experts(self, queries: TimeQueries, side: Side) -> tuple[Ints, Ints, Ints, Ints]:
        """(query, kind, date, 0 same or 1 mirrored) of all other dates of pairs, of kinds that were seen."""
        codes = self._codes[side]
        place, row, anchor, at = self._others(queries)
        if len(codes) == 0:
            return (np.empty(0, np.int64),) * 4
        code = self._code(queries.r[place], self.evidence.r[row], anchor)
        kind = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        seen = codes[kind] == code
        mirrored = (self.evidence.r[row] >= self.evidence.relations).astype(np.int64)
        return place[seen], kind[seen], at[seen], mirrored[seen]

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 2, instants): the best density of facts in the same direction, and of mirrored ones."""
        axis = queries.instants(self.evidence)
        rows = np.zeros((len(queries), 2, axis.shape[1]), np.float32)
        place, kind, at, mirrored = self._experts(queries, side)
        _best(place, kind, at, mirrored, self.tables[side], self._buckets.of, axis, rows)
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """The fact of the pair that says most."""
        said, instant, found = self.years(query, side)[0, :, at], int(query.instants(self.evidence)[0, at]), []
        _, row, anchor, date = self._others(query)
        code, codes = self._code(np.repeat(query.r, len(row)), self.evidence.r[row], anchor), self._codes[side]
        for which in range(2):
            for one in np.flatnonzero((self.evidence.r[row] >= self.evidence.relations) == which):
                kind, gap = np.flatnonzero(codes == code[one]), instant - int(date[one])
                if len(kind) and self.tables[side][kind[0], self._buckets(np.array([gap]))[0]] == said[which]:
                    values = np.where(np.arange(2) == which, said, 0).astype(float)
                    usual = habit(self._seen[side][kind[0]], self._buckets, gap)
                    end: Side = "end" if anchor[one] else "begin"
                    seen = usual.holds, usual.cases, usual.low, usual.high
                    found.append(Because(int(row[one]), values, gap, end, *seen))
                    break
        return found

    def points(self, queries: TimeQueries, side: Side) -> tuple[Ints, Ints, Floats]:
        """The usual gaps from other dates of the pair."""
        place, kind, at, _ = self._experts(queries, side)
        return pointed(place, kind, at, self.tables[side], self._buckets)


@njit(cache=True, nogil=True)
def _best(
    place: Ints, kind: Ints, at: Ints, mirrored: Ints, table: Features, bucket: Ints, axis: Ints, rows: Features
) -> None:
    """The largest of log p over experts; 0 where there is none: rows (n, 2, instants)."""
    farthest = len(bucket) - 1
    heard = np.zeros(rows.shape[:2], np.bool_)
    for expert in range(len(place)):
        query, which = place[expert], mirrored[expert]
        here = axis[query if len(axis) > 1 else 0]
        first = not heard[query, which]
        heard[query, which] = True
        for column in range(len(here)):
            cell = bucket[min(max(here[column] - at[expert] + farthest // 2, 0), farthest)]
            value = table[kind[expert], cell]
            if first or value > rows[query, which, column]:
                rows[query, which, column] = value
