"""Recurrence: what x had relation r with before, it has again, or never again.

For a known fact (x, r, c, t′) and a question (x, r, ?, t), the rate of relation r and of the bucket of t − t′ is

    hits / (cases + 5)

over all pairs of facts (x, r, g, t), (x, r, c, t′), where a hit has c = g. The features of c are whether it is known
at all, and log(1 + highest rate / ε) over the facts that state it. The own fact of a question is none of them, and no
pair of cases has it.
"""

import numpy as np
from numba import njit

from timeplex.patterns.base import Evidence, LinkQueries, Pattern, register
from timeplex.patterns.graph import BUCKETS, Graph, bucket, edges_of
from timeplex.typing import Features, Ints

SHRINKAGE = 5.0
FLOOR = 1e-3
MOST_PARTNERS = 4096
"""Each of more facts of one entity and relation is paired with so many of them, spread evenly."""


@register("recurrence")
class Recurrence(Pattern):
    """Hits and cases by relation and bucket: (2R, buckets) each."""

    candidate_features = ("known", "recurrence")

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.hits, self.cases = _count(evidence.graph, 2 * evidence.relations)

    def candidates(self, queries: LinkQueries) -> Features:
        """Whether (x, r, c) is known, and its rate: (n, 2, entities)."""
        columns = (queries.x, queries.r, queries.date, queries.own)
        found: Features = _scores(self.evidence.graph, self.hits, self.cases, *columns)
        return found


@njit(cache=True)
def _count(links: Graph, relations: int) -> tuple[Ints, Ints]:
    hits, cases = np.zeros((relations, BUCKETS), np.int64), np.zeros((relations, BUCKETS), np.int64)
    for x in range(len(links.start) - 1):
        _pairs(links, links.start[x], links.start[x + 1], -1, hits, cases)
    return hits, cases


@njit(cache=True)
def _pairs(links: Graph, start: int, stop: int, own: int, hits: Ints, cases: Ints) -> None:
    """Add all pairs of edges of one entity and relation; those that have the fact `own`, if one is named."""
    low = start
    while low < stop:
        r, high = links.r[low], low
        while high < stop and links.r[high] == r:
            high += 1
        partners = min(high - low, MOST_PARTNERS)
        for i in range(low, high):
            for nth in range(partners):
                j = low + nth * (high - low) // partners
                mine = own < 0 or links.fact[i] == own or links.fact[j] == own
                if mine and links.fact[i] != links.fact[j]:
                    place = bucket(links.bounds, links.date[i], links.date[j])
                    cases[r, place] += 1
                    hits[r, place] += links.y[i] == links.y[j]
        low = high


@njit(cache=True)
def _scores(links: Graph, hits: Ints, cases: Ints, x: Ints, r: Ints, date: Ints, own: Ints) -> Features:
    out = np.zeros((len(x), 2, len(links.start) - 1), np.float32)
    for q in range(len(x)):
        low, high = edges_of(links, x[q], r[q])
        less_hits, less_cases = np.zeros_like(hits), np.zeros_like(cases)
        if own[q] >= 0:
            _pairs(links, low, high, own[q], less_hits, less_cases)
        for i in range(low, high):
            if links.fact[i] == own[q]:
                continue
            c, place = links.y[i], bucket(links.bounds, date[q], links.date[i])
            hit, case = hits[r[q], place] - less_hits[r[q], place], cases[r[q], place] - less_cases[r[q], place]
            out[q, 0, c] = 1
            out[q, 1, c] = max(out[q, 1, c], np.log1p(hit / (case + SHRINKAGE) / FLOOR))
    return out
