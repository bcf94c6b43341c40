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
from typing import Literal, get_args

import numpy as np

from timeplex.evaluation.queries import PlacedFacts
from timeplex.kb import spans
from timeplex.kb.facts import pair_key, split_key
from timeplex.models.scorer import Direction
from timeplex.typing import Ints

Filter = Literal["none", "ignore-time", "exact-span", "per-instant"]
FILTERS: tuple[Filter, ...] = get_args(Filter)

MOST_ANSWERS = 1 << 25
"""The most known answers that are held for all queries; ICEWS05-15 has 27 million."""


@dataclass(frozen=True)
class Forgiven:
    """Known answers of queries, sorted by query: entity `answer` of query `query` at `instants` of its `of[query]`.

    Instants are counted, not shares, so that ranks are exact.
    """

    query: Ints
    answer: Ints
    instants: Ints
    of: Ints  # (queries,): the length of each query's span

    def rows(self, start: int, stop: int) -> "Forgiven":
        """The part for queries start … stop − 1, numbered from 0."""
        low, high = np.searchsorted(self.query, [start, stop])
        return Forgiven(
            self.query[low:high] - start, self.answer[low:high], self.instants[low:high], self.of[start:stop]
        )


def forgiven(queries: PlacedFacts, known: PlacedFacts, direction: Direction, by: Filter) -> Forgiven:
    """What is forgiven to each query, given all known facts; the gold itself is left out."""
    if by == "none":
        nothing = np.empty(0, np.int64)
        return Forgiven(nothing, nothing, nothing, queries.lengths)
    query, fact = known.same_question(queries, direction)
    answer = known.answers(direction)[fact]
    keep = answer != queries.answers(direction)[query]
    if by == "exact-span":
        keep &= (known.first[fact] == queries.first[query]) & (known.last[fact] == queries.last[query])
    query, fact, answer = query[keep], fact[keep], answer[keep]
    group = pair_key(query, answer)
    if by != "per-instant":
        distinct = np.unique(group)
        query = split_key(distinct)[0]
        return Forgiven(query, distinct & 0xFFFFFFFF, queries.lengths[query], queries.lengths)
    shared = spans.intersection((known.first[fact], known.last[fact]), (queries.first[query], queries.last[query]))
    overlap = shared[0] <= shared[1]
    first, last, group = spans.union((shared[0][overlap], shared[1][overlap]), group[overlap])
    distinct, where = np.unique(group, return_inverse=True)
    instants = np.bincount(where, weights=last - first + 1, minlength=len(distinct))
    return Forgiven(*split_key(distinct), instants.astype(np.int64), queries.lengths)


@dataclass(frozen=True)
class OnDemand:
    """What is forgiven to queries with very many known answers, told for some of them at a time."""

    queries: PlacedFacts
    known: PlacedFacts
    direction: Direction
    by: Filter
    most: int  # so many queries may be asked for at once

    def rows(self, start: int, stop: int) -> Forgiven:
        """The part for queries start … stop − 1, numbered from 0."""
        return forgiven(self.queries.rows(start, stop), self.known, self.direction, self.by)


def allowance(queries: PlacedFacts, known: PlacedFacts, direction: Direction, by: Filter) -> Forgiven | OnDemand:
    """What is forgiven to each query; on demand, if all of it would not fit in memory."""
    answers = known.count_same_question(queries, direction)
    if by == "none" or answers.sum() <= MOST_ANSWERS:
        return forgiven(queries, known, direction, by)
    return OnDemand(queries, known, direction, by, max(1, MOST_ANSWERS // 4 // int(answers.max())))
