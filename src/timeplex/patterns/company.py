"""Company: who has events with the same entities at the same time as whom, whoever they are.

A minister is visited when the country is; what the police of a country does is told of its government, too. With rows
(z, r, c′, t) of the evidence, every event from both its sides,

    p(c | c′) = hits / (cases + 5),    cases: rows of c′;    hits: those where z has an event with c ≠ c′ within a day

For (x, r, ?, t), the candidate c is judged by the company of those whom x has events with, and by the events that the
company of x has with c:

    with 0, 1, 3    1 − Π (1 − p(c | c′)) over the events (x, r′, c′, t′), c′ ≠ c, with |t′ − t| ≤ 0, 1 or 3 instants
    with same       the same within 3 instants, with r′ = r
    with best       the highest p(c | c′) within 1 instant
    like 0, 1, 3; same; best    likewise of p(x | x′), over the events (x′, r′, c, t′), x′ ≠ x

each said as log(1 + 1000 p). Undated facts and facts of an entity with itself are left out, and what a KB states twice
counts once. Of x itself nothing is said. A row that has more than `MOST` others within a day has no hits.
"""

import numpy as np
from numba import njit
from scipy.sparse import coo_matrix, csr_matrix

from timeplex.patterns.base import Evidence, LinkQueries, Pattern, register
from timeplex.patterns.events import PRIOR, SHARPNESS, Log, event_rows, log_of
from timeplex.patterns.graph import NO_DATE
from timeplex.typing import Codes, Features, Floats, Ints

NEAR = (0, 1, 3)
"""The windows, in instants."""
MOST = 500
"""Who has more events than so many within a day tells nothing of their company: there would be too many pairs."""


@register("company")
class Company(Pattern):
    """What the company of the entities that a question and its time name says of a candidate; see the module."""

    candidate_features = tuple(f"{of} {scale}" for of in ("with", "like") for scale in ("0", "1", "3", "same", "best"))
    counts_own = True

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        rows, place = event_rows(evidence)
        log = log_of(evidence, rows)
        x = evidence.x[rows]
        by_time = np.lexsort((log.y, log.r, log.t, x))
        moved = np.full(len(rows) + 1, -1, np.int64)
        moved[by_time] = np.arange(len(rows))
        self._place = moved[place]  # −1 stays −1
        self._start = log.start
        self._y, self._r, self._t = log.y[by_time].astype(np.int64), log.r[by_time], log.t[by_time]
        self._given, self._by = self._learned(log)

    def _learned(self, log: Log) -> tuple[csr_matrix, csr_matrix]:
        """log(1 − p(c | c′)) by c′, and by c: (entities, entities) each."""
        size = (self.evidence.entities, self.evidence.entities)
        none = np.empty(0, np.int32)
        some = _company(self._start, self._y, self._t, MOST, none, none)
        given, other = np.empty(some, np.int32), np.empty(some, np.int32)
        _company(self._start, self._y, self._t, MOST, given, other)
        hits = coo_matrix((np.ones(some, np.float64), (given, other)), shape=size).tocsr()
        hits.sum_duplicates()
        hits.sort_indices()
        cases = np.repeat(log.active.astype(np.float64), np.diff(hits.indptr))
        hits.data = np.log1p(-hits.data / (cases + PRIOR))
        by = hits.T.tocsr()
        by.sort_indices()
        return hits, by

    def candidates(self, queries: LinkQueries) -> Features:
        """What speaks for each entity as an answer: (n, features, entities), float32."""
        row = np.where(queries.r < self.evidence.relations, queries.own, queries.own + len(self.evidence))
        skip = self._place[np.where(queries.own >= 0, row, -1)]
        found = np.zeros((len(queries), len(self.candidate_features), self.evidence.entities), np.float32)
        given, by = ((table.indptr, table.indices, table.data) for table in (self._given, self._by))
        rows = (self._start, self._y, self._r, self._t)
        _answer(queries.x, queries.r, queries.date, skip, rows, given, by, found)
        found[np.arange(len(queries)), :, queries.x] = 0
        np.expm1(found, out=found)
        found *= -SHARPNESS
        np.log1p(found, out=found)
        return found


@njit(cache=True)
def _company(start: Ints, y: Ints, t: Ints, most: int, given: Codes, other: Codes) -> int:
    """Write down every (c′, c) that is a hit, if there is room, and count them; rows by (z, t)."""
    found = 0
    mark = np.full(len(start), -1, np.int64)
    for z in range(len(start) - 1):
        first, last = start[z], start[z]
        for i in range(start[z], start[z + 1]):
            while t[first] < t[i] - 1:
                first += 1
            while last < start[z + 1] and t[last] <= t[i] + 1:
                last += 1
            if last - first > most:
                continue
            mark[y[i]] = i
            for j in range(first, last):
                if mark[y[j]] != i:
                    mark[y[j]] = i
                    if len(given):
                        given[found], other[found] = y[i], y[j]
                    found += 1
    return found


@njit(cache=True)
def _answer(
    x: Ints,
    r: Ints,
    t: Ints,
    skip: Ints,
    rows: tuple[Ints, Ints, Codes, Ints],
    shares: tuple[Codes, Codes, Floats],
    shares_by: tuple[Codes, Codes, Floats],
    found: Features,
) -> None:
    """Fill (n, features, entities), which is 0 before, with log(1 − p)."""
    start, y, relation, date = rows
    given_start, given, given_log = shares
    by_start, by, by_log = shares_by
    for q in range(len(x)):
        if t[q] == NO_DATE:
            continue
        out = found[q]
        first, last = _window(start[x[q]], start[x[q] + 1], date, t[q])
        for i in range(first, last):
            if i != skip[q]:
                for k in range(given_start[y[i]], given_start[y[i] + 1]):
                    _add(out[:5, given[k]], abs(date[i] - t[q]), relation[i] == r[q], given_log[k])
        for k in range(by_start[x[q]], by_start[x[q] + 1]):
            first, last = _window(start[by[k]], start[by[k] + 1], date, t[q])
            for i in range(first, last):
                _add(out[5:, y[i]], abs(date[i] - t[q]), relation[i] == r[q], by_log[k])


@njit(cache=True)
def _window(first: int, stop: int, date: Ints, now: int) -> tuple[int, int]:
    """The rows from 3 instants before to 3 after."""
    low = first + int(np.searchsorted(date[first:stop], now - 3))
    return low, low + int(np.searchsorted(date[low:stop], now + 3, side="right"))


@njit(cache=True)
def _add(sums: Features, distance: int, same: bool, log_miss: float) -> None:
    for k in range(3):
        if distance <= NEAR[k]:
            sums[k] += log_miss
    if same:
        sums[3] += log_miss
    if distance <= 1:
        sums[4] = min(sums[4], log_miss)
