"""Pairs: other facts between the same two entities, in the same direction or mirrored, and the gaps to them.

A marriage is stated from both sides with one span; who joins a club leaves it later. A kind of gap is (relation, other
relation, same or mirrored, begin or end of the other); densities as in `densities`. The best expert counts.
"""

import numpy as np
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.facts import Index, pair_key
from timeplex.patterns.base import SIDES, Because, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import buckets, smoothed
from timeplex.patterns.gaps import habit, some_matches
from timeplex.typing import Bools, Features, Ints


@register("pairs")
class Pairs(Pattern):
    """What other facts of the same two entities say of a date."""

    year_features = ("same pair", "mirrored pair")

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        self._buckets = buckets(evidence.granularity)
        self._index = Index(pair_key(evidence.x, evidence.y))
        self._codes: dict[str, Ints] = {}
        self.tables: dict[str, Features] = {}
        self._seen: dict[str, NDArray[np.int32]] = {}
        facts = evidence.facts
        everything = TimeQueries.of(facts, np.arange(len(facts)))
        place, row, anchor, at = self._others(everything)
        if counted is not None:
            kept = counted[place] & counted[row % len(evidence)]
            place, row, anchor, at = place[kept], row[kept], anchor[kept], at[kept]
        for side in SIDES:
            date = (facts.begin if side == "begin" else facts.end).astype(np.int64)[place]
            known = (date != spans.OPEN_BEGIN) & (date != spans.OPEN_END)
            code = self._code(everything.r[place], row, anchor)[known]
            self._codes[side], kind = np.unique(code, return_inverse=True)
            width = len(self._buckets.width)
            cell = kind * width + self._buckets(date[known] - at[known])
            counts = np.bincount(cell, minlength=len(self._codes[side]) * width).reshape(-1, width)
            self._seen[side] = counts.astype(np.int32)
            self.tables[side] = smoothed(counts.astype(float), self._buckets.width)

    def _code(self, r: Ints, row: Ints, anchor: Ints) -> Ints:
        return (r * 2 * self.evidence.relations + self.evidence.r[row]) * 2 + anchor

    def _others(self, queries: TimeQueries) -> tuple[Ints, Ints, Ints, Ints]:
        """All (query, row of another fact of its pair as seen from its subject, 0 begin or 1 end, its date)."""
        evidence = self.evidence
        place, row = some_matches(self._index, pair_key(queries.s, queries.o))
        kept = row % max(len(evidence), 1) != queries.own[place]
        place, row = place[kept], row[kept]
        begin, end = evidence.begin[row], evidence.end[row]
        begins, ends = begin != spans.OPEN_BEGIN, (end != spans.OPEN_END) & (end != begin)
        anchor = np.repeat([0, 1], [begins.sum(), ends.sum()])
        at = np.concatenate([begin[begins], end[ends]])
        return np.concatenate([place[begins], place[ends]]), np.concatenate([row[begins], row[ends]]), anchor, at

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 2, axis): the best density of facts in the same direction, and of mirrored ones."""
        axis, codes = self.evidence.axis, self._codes[side]
        rows = np.zeros((len(queries), 2, len(axis)), np.float32)
        place, row, anchor, at = self._others(queries)
        if len(codes) == 0 or len(place) == 0:
            return rows
        code = self._code(queries.r[place], row, anchor)
        kind = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        seen = codes[kind] == code
        place, row, at, kind = place[seen], row[seen], at[seen], kind[seen]
        said = self.tables[side][kind[:, None], self._buckets(axis - at[:, None])]
        which = (self.evidence.r[row] >= self.evidence.relations).astype(np.int64)
        first = np.full(rows.shape, -np.inf, np.float32)
        np.maximum.at(first, (place, which), said)
        np.copyto(rows, first, where=np.isfinite(first))
        return rows

    def because(self, query: TimeQueries, side: Side, at: int) -> list[Because]:
        """The fact of the pair that says most."""
        said, instant, found = self.years(query, side)[0, :, at], int(self.evidence.axis[at]), []
        _, row, anchor, date = self._others(query)
        code, codes = self._code(np.repeat(query.r, len(row)), row, anchor), self._codes[side]
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
