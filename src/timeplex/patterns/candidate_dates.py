"""A candidate's own dates: who was born in 1900 won no prize in 1880.

For a question (x, r, ?) at y and an entity c with another fact of directed relation r′ that begins (or ends) at t, the
gap y − t is likely or not if c is the answer. Gaps are counted over all pairs of facts of one entity, by role r⁻¹,
r′ and side of the other fact (its begin or its end), with weight 1/√(facts of the entity), over −300 … 300 instants,
those beyond at the rims. The density is smooth where cases are few and keeps its spikes where they are many:

    wide    counts ∗ Laplace(12)
    narrow  counts ∗ Laplace(2), shrunk to wide with weight 10
    p       counts, shrunk to narrow with weight 20; then 95 % of it and 5 % uniform

What speaks for c is log p(y − t) − log p₀(y − t), where p₀, smoothed alike, is the density of gaps between dates that
are drawn independently from the two relations. The features are, over the other facts of c and their two sides,

    dates        Σ · min(n, 2.5) / n
    best date    the highest
    worst date   the lowest

for the begin of the question, and again for its end. The own fact of a question is none of them.

What could grow without end is bounded: an entity's facts are each compared with `MOST_FACTS` others of it, spread
evenly; the `MOST_TABLES` most frequent pairs of r⁻¹ and r′ have densities, the others say nothing; and of more than
`MOST_DATES` dates of r⁻¹ so many, spread evenly, stand for p₀.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns import hashing
from timeplex.patterns.base import SIDES, Evidence, LinkQueries, Pattern, register
from timeplex.patterns.graph import Graph
from timeplex.typing import Features, Floats, Ints

REACH = 300
WIDE, NARROW = 12.0, 2.0
TO_WIDE, TO_NARROW = 10.0, 20.0
UNIFORM = 0.05
MOST = 2.5
"""So many facts count in full; more are as good as these."""
MOST_FACTS, MOST_TABLES, MOST_DATES = 1024, 4_000, 1024


@register("candidate dates")
class CandidateDates(Pattern):
    """Log ratios by side of the question, role, other relation, side of the other fact, and gap; see the module."""

    candidate_features = tuple(f"{kind}, {side}" for side in SIDES for kind in ("dates", "best date", "worst date"))
    counts_own = True

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        roles = max(2 * evidence.relations, 1)
        keys, cases = _occurring(evidence.graph, roles)
        there = np.flatnonzero(keys != -1)
        often = there[np.lexsort((keys[there], -cases[there, 0]))[:MOST_TABLES]]
        often = often[np.argsort(keys[often])]
        number = np.full(len(keys), -1)
        number[often] = np.arange(len(often))
        self.role, self.other = keys[often] // roles, keys[often] % roles
        self.start = np.searchsorted(self.role, np.arange(roles + 1))
        self.ratios = [self._ratios(side, _gaps(evidence.graph, roles, keys, number, side)) for side in range(2)]

    def _ratios(self, side: int, counts: Floats) -> Features:
        """log p − log p₀: (tables, side of the other fact, gaps)."""
        evidence, chance = self.evidence, np.empty_like(counts)
        # A relation has the same dates in both directions.
        role, other = self.role % max(evidence.relations, 1), self.other % max(evidence.relations, 1)
        # Thinned on one side alone: of two thinned alike, some gaps would be all there is.
        some = _dates_of(evidence, side, MOST_DATES)
        for anchor in range(2):
            _chance(*some, *_dates_of(evidence, anchor), role, other, chance[:, anchor])
        ratio: Features = np.log(_density(counts)) - np.log(_density(chance * counts.sum(-1, keepdims=True)))
        return ratio.astype(np.float32)

    def candidates(self, queries: LinkQueries) -> Features:
        """Tempered sum, highest and lowest log ratio, for the begin and the end of the question: (n, 6, entities)."""
        evidence = self.evidence
        role = (queries.r + evidence.relations) % max(2 * evidence.relations, 1)
        out = np.zeros((len(queries), 6, evidence.entities), np.float32)
        tables = evidence.graph, self.start, self.other
        for side, date in enumerate((queries.begin, queries.end)):
            _scores(*tables, self.ratios[side], role, date, queries.own, out[:, 3 * side : 3 * side + 3])
        return out


@njit(cache=True)
def _scores(
    links: Graph, start: Ints, other: Ints, ratio: Features, role: Ints, date: Ints, own: Ints, out: Features
) -> None:
    table_of = np.full(len(start), -1)
    for q in range(len(role)):
        if date[q] == spans.OPEN_BEGIN or date[q] == spans.OPEN_END:
            continue
        for table in range(start[role[q]], start[role[q] + 1]):
            table_of[other[table]] = table
        for c in range(len(links.start) - 1):
            n, total, best, worst = 0, 0.0, -np.inf, np.inf
            for i in range(links.start[c], links.start[c + 1]):
                table = table_of[links.r[i]]
                if table < 0 or links.fact[i] == own[q]:
                    continue
                for side in range(2):
                    at = links.end[i] if side else links.begin[i]
                    if at == spans.OPEN_BEGIN or at == spans.OPEN_END:
                        continue
                    value = ratio[table, side, min(max(date[q] - at, -REACH), REACH) + REACH]
                    n += 1
                    total += value
                    best, worst = max(best, value), min(worst, value)
            if n:
                out[q, 0, c] = total * min(n, MOST) / n
                out[q, 1, c] = best
                out[q, 2, c] = worst
        for table in range(start[role[q]], start[role[q] + 1]):
            table_of[other[table]] = -1


@njit(cache=True)
def _occurring(links: Graph, roles: int) -> hashing.Table:
    """How often some entity has a fact of a role and another of a role: a hash table by role · roles + other."""
    (keys, cases), used = hashing.empty(1), 0
    for c in range(len(links.start) - 1):
        low, high = links.start[c], links.start[c + 1]
        others = min(high - low, MOST_FACTS)
        for i in range(low, high):
            for nth in range(others):
                j = low + nth * (high - low) // others
                if links.fact[i] == links.fact[j]:
                    continue
                code = np.int64(links.r[i]) * roles + links.r[j]
                slot = hashing.slot_of(keys, code)
                if keys[slot] == -1:
                    keys, cases = hashing.with_room(keys, cases, used)
                    slot = hashing.slot_of(keys, code)
                    keys[slot] = code
                    used += 1
                cases[slot, 0] += 1
    return keys, cases


@njit(cache=True)
def _gaps(links: Graph, roles: int, keys: Ints, number: Ints, side: int) -> Floats:
    """Weighted counts of gaps: (tables, side of the other fact, gaps)."""
    counts = np.zeros((number.max() + 1, 2, 2 * REACH + 1))
    for c in range(len(links.start) - 1):
        low, high = links.start[c], links.start[c + 1]
        weight, others = 1 / np.sqrt(max(high - low, 1)), min(high - low, MOST_FACTS)
        for i in range(low, high):
            date = links.end[i] if side else links.begin[i]
            if date == spans.OPEN_BEGIN or date == spans.OPEN_END:
                continue
            for nth in range(others):
                j = low + nth * (high - low) // others
                table = number[hashing.slot_of(keys, np.int64(links.r[i]) * roles + links.r[j])]
                if table < 0 or links.fact[i] == links.fact[j]:
                    continue
                for anchor in range(2):
                    other = links.end[j] if anchor else links.begin[j]
                    if other != spans.OPEN_BEGIN and other != spans.OPEN_END:
                        gap = min(max(date - other, -REACH), REACH)
                        counts[table, anchor, gap + REACH] += weight
    return counts


def _dates_of(evidence: Evidence, side: int, most: int | None = None) -> tuple[Ints, Ints, Floats]:
    """The begins, or ends, of each relation, or at most so many of them, spread evenly: (start, date, how often).

    Those of r are start[r] … start[r + 1] − 1.
    """
    facts, found = evidence.facts, []
    date, known = (facts.begin, facts.has_begin) if side == 0 else (facts.end, facts.has_end)
    order = np.flatnonzero(known)[np.lexsort((date[known], facts.r[known]))]
    first = np.searchsorted(facts.r[order], np.arange(evidence.relations + 1))
    for low, high in pairwise(first):
        dates, times = np.unique(date[order[low:high]], return_counts=True)
        if most is not None and len(dates) > most:
            rank = (2 * np.arange(most) + 1) * (high - low) // (2 * most)
            dates, times = np.unique(date[order[low:high]][rank], return_counts=True)
        found.append((dates.astype(np.int64), times.astype(float)))
    start = np.cumsum([0, *(len(dates) for dates, _ in found)])
    none = np.empty(0)
    return (
        start.astype(np.int64),
        np.concatenate([none.astype(np.int64), *(dates for dates, _ in found)]),
        np.concatenate([none, *(times for _, times in found)]),
    )


@njit(cache=True)
def _chance(
    starts: Ints,
    dates: Ints,
    times: Floats,
    other_starts: Ints,
    other_dates: Ints,
    other_times: Floats,
    role: Ints,
    other: Ints,
    out: Floats,
) -> None:
    """The shares of gaps between independent dates of two relations: out (tables, gaps), 0 if one has no date."""
    for table in range(len(role)):
        out[table] = 0
        first, last = other_starts[other[table]], other_starts[other[table] + 1]
        up_to = np.append(0.0, np.cumsum(other_times[first:last]))
        near, far = first, first
        for i in range(starts[role[table]], starts[role[table] + 1]):
            while near < last and other_dates[near] <= dates[i] - REACH:
                near += 1
            while far < last and other_dates[far] < dates[i] + REACH:
                far += 1
            out[table, 2 * REACH] += times[i] * up_to[near - first]
            out[table, 0] += times[i] * (up_to[last - first] - up_to[far - first])
            for j in range(near, far):
                out[table, dates[i] - other_dates[j] + REACH] += times[i] * other_times[j]
        total = out[table].sum()
        if total > 0:
            out[table] /= total


def _density(counts: Floats) -> Floats:
    """Counts over gaps as a density, with spikes where there are cases and smooth where there are few."""
    total = counts.sum(-1, keepdims=True)
    wide = _smooth(counts, WIDE) / np.maximum(total, 1e-300)
    narrow = (_smooth(counts, NARROW) + TO_WIDE * wide) / (total + TO_WIDE)
    spiky = (counts + TO_NARROW * narrow) / (total + TO_NARROW)
    density: Floats = (1 - UNIFORM) * spiky + UNIFORM / counts.shape[-1]
    return density


def _smooth(counts: Floats, scale: float) -> Floats:
    """Counts, each spread over the gaps about it."""
    smooth: Floats = counts @ _kernel(counts.shape[-1], scale)
    return smooth


@cache
def _kernel(gaps: int, scale: float) -> Floats:
    """What each gap gives to each other: a Laplace kernel that sums to 1 within the axis."""
    kernel = np.exp(-np.abs(np.arange(gaps)[:, None] - np.arange(gaps)) / scale)
    share: Floats = kernel / kernel.sum(1, keepdims=True)
    return share
