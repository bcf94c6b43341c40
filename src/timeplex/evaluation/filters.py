"""Which known answers do not count against a query's gold, and how much each of them is forgiven.

A known answer f of a query with span T is forgiven the share of T at which f is known to hold:

    none          nothing
    ignore-time   1 for every known answer, whenever it held            (the paper's Method 2)
    exact-span    1 if it is known with just the query's span           (its appendix E)
    per-instant   |T ∩ U_f| / |T|, U_f the union of f's known spans     (its Method 3)

Forgiving this share and taking one rank is the same as ranking at every instant of T, filtering what is known there,
and taking the mean: the ranks differ from instant to instant only by the known answers above the gold.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from timeplex.evaluation.queries import PlacedFacts
from timeplex.kb import spans
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Index, pair_key

Filter = Literal["none", "ignore-time", "exact-span", "per-instant"]
Direction = Literal["subject", "object"]


@dataclass(frozen=True)
class Forgiven:
    """Known answers of queries, sorted by query: entity `answer` of query `query` at `instants` of its instants.

    Instants are counted, not shares, so that ranks are exact.
    """

    query: Ints
    answer: Ints
    instants: Ints

    def rows(self, start: int, stop: int) -> "Forgiven":
        """The part for queries start … stop − 1, numbered from 0."""
        low, high = np.searchsorted(self.query, [start, stop])
        return Forgiven(self.query[low:high] - start, self.answer[low:high], self.instants[low:high])


def forgiven(queries: PlacedFacts, known: PlacedFacts, direction: Direction, by: Filter) -> Forgiven:
    """What is forgiven to each query, given all known facts; the gold itself is left out."""
    nothing = np.empty(0, np.int64)
    if by == "none":
        return Forgiven(nothing, nothing, nothing)
    query, fact = _same_question(queries, known, direction)
    answers, golds = (known.o, queries.o) if direction == "object" else (known.s, queries.s)
    answer = answers[fact]
    keep = answer != golds[query]
    if by == "exact-span":
        keep &= (known.first[fact] == queries.first[query]) & (known.last[fact] == queries.last[query])
    query, fact, answer = query[keep], fact[keep], answer[keep]
    group = pair_key(query, answer)
    if by != "per-instant":
        distinct = np.unique(group)
        query = distinct >> 32
        return Forgiven(query, distinct & 0xFFFFFFFF, queries.lengths[query])
    shared = spans.intersection((known.first[fact], known.last[fact]), (queries.first[query], queries.last[query]))
    overlap = shared[0] <= shared[1]
    first, last, group = spans.union((shared[0][overlap], shared[1][overlap]), group[overlap])
    distinct, where = np.unique(group, return_inverse=True)
    instants = np.bincount(where, weights=last - first + 1, minlength=len(distinct))
    return Forgiven(distinct >> 32, distinct & 0xFFFFFFFF, instants.astype(np.int64))


def _same_question(queries: PlacedFacts, known: PlacedFacts, direction: Direction) -> tuple[Ints, Ints]:
    """All pairs (query, known fact) that share relation and given entity."""
    given, given_known = (queries.s, known.s) if direction == "object" else (queries.o, known.o)
    index = Index(pair_key(given_known, known.r))
    start, stop = index.ranges(pair_key(given, queries.r))
    lengths = stop - start
    query = np.repeat(np.arange(len(queries)), lengths)
    offset = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return query, index.order[np.repeat(start, lengths) + offset]
