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
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.patterns.base import SIDES, Evidence, Features, LinkQueries, Pattern, register
from timeplex.patterns.graph import Graph
from timeplex.typing import Floats, Ints

REACH = 300
WIDE, NARROW = 12.0, 2.0
TO_WIDE, TO_NARROW = 10.0, 20.0
UNIFORM = 0.05
MOST = 2.5
"""So many facts count in full; more are as good as these."""


@register("candidate dates")
class CandidateDates(Pattern):
    """Log ratios by side of the question, role, other relation, side of the other fact, and gap; see the module."""

    candidate_features = tuple(f"{kind}, {side}" for side in SIDES for kind in ("dates", "best date", "worst date"))

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.ratios = [_ratios(evidence, side) for side in range(2)]

    def candidates(self, queries: LinkQueries) -> Features:
        """Tempered sum, highest and lowest log ratio, for the begin and the end of the question: (n, 6, entities)."""
        evidence = self.evidence
        role = (queries.r + evidence.relations) % max(2 * evidence.relations, 1)
        out = np.zeros((len(queries), 6, evidence.entities), np.float32)
        for side, date in enumerate((queries.begin, queries.end)):
            _scores(evidence.graph, *self.ratios[side], role, date, queries.own, out[:, 3 * side : 3 * side + 3])
        return out


@njit(cache=True)
def _scores(links: Graph, pair: Ints, ratio: Features, role: Ints, date: Ints, own: Ints, out: Features) -> None:
    for q in range(len(role)):
        if date[q] == spans.OPEN_BEGIN or date[q] == spans.OPEN_END:
            continue
        for c in range(len(links.start) - 1):
            n, total, best, worst = 0, 0.0, -np.inf, np.inf
            for i in range(links.start[c], links.start[c + 1]):
                table = pair[role[q], links.r[i]]
                if table < 0 or links.fact[i] == own[q]:
                    continue
                for side in range(2):
                    other = links.end[i] if side else links.begin[i]
                    if other == spans.OPEN_BEGIN or other == spans.OPEN_END:
                        continue
                    value = ratio[table, side, min(max(date[q] - other, -REACH), REACH) + REACH]
                    n += 1
                    total += value
                    best, worst = max(best, value), min(worst, value)
            if n:
                out[q, 0, c] = total * min(n, MOST) / n
                out[q, 1, c] = best
                out[q, 2, c] = worst


def _ratios(evidence: Evidence, side: int) -> tuple[Ints, Features]:
    """Which table a pair of relations has, (2R, 2R), −1: none; the tables: (pairs, side of the other fact, gaps)."""
    roles = 2 * evidence.relations
    links = evidence.graph
    occurs = _occurring(links, roles)
    pair = np.full((roles, roles), -1)
    pair[occurs] = np.arange(occurs.sum())
    counts = _gaps(links, pair, int(occurs.sum()), side)
    chance = np.empty_like(counts)
    dates = _date_histograms(evidence)
    # A relation has the same dates in both directions.
    spectra = np.fft.rfft(dates, 2 * dates.shape[-1], axis=-1)
    for table, (role, other) in enumerate(np.argwhere(occurs) % max(evidence.relations, 1)):
        for anchor in range(2):
            chance[table, anchor] = _chance(spectra[side, role] * spectra[anchor, other].conj(), dates.shape[-1])
    ratio = np.log(_density(counts)) - np.log(_density(chance * counts.sum(-1, keepdims=True)))
    return pair, ratio.astype(np.float32)


@njit(cache=True)
def _occurring(links: Graph, roles: int) -> NDArray[np.bool_]:
    """Which pairs of roles some entity has, in two facts."""
    occurs = np.zeros((roles, roles), np.bool_)
    for c in range(len(links.start) - 1):
        for i in range(links.start[c], links.start[c + 1]):
            for j in range(links.start[c], links.start[c + 1]):
                if links.fact[i] != links.fact[j]:
                    occurs[links.r[i], links.r[j]] = True
    return occurs


@njit(cache=True)
def _gaps(links: Graph, pair: Ints, pairs: int, side: int) -> Floats:
    """Weighted counts of gaps: (pairs, side of the other fact, gaps)."""
    counts = np.zeros((pairs, 2, 2 * REACH + 1))
    for c in range(len(links.start) - 1):
        weight = 1 / np.sqrt(max(links.start[c + 1] - links.start[c], 1))
        for i in range(links.start[c], links.start[c + 1]):
            date = links.end[i] if side else links.begin[i]
            if date == spans.OPEN_BEGIN or date == spans.OPEN_END:
                continue
            for j in range(links.start[c], links.start[c + 1]):
                if links.fact[i] == links.fact[j]:
                    continue
                for anchor in range(2):
                    other = links.end[j] if anchor else links.begin[j]
                    if other != spans.OPEN_BEGIN and other != spans.OPEN_END:
                        gap = min(max(date - other, -REACH), REACH)
                        counts[pair[links.r[i], links.r[j]], anchor, gap + REACH] += weight
    return counts


def _date_histograms(evidence: Evidence) -> Floats:
    """How many facts of each relation begin, and end, at each instant of the axis: (side, relations, instants)."""
    facts = evidence.facts
    out = np.zeros((2, max(evidence.relations, 1), evidence.instants))
    for side, (date, known) in enumerate(((facts.begin, facts.has_begin), (facts.end, facts.has_end))):
        np.add.at(out[side], (facts.r[known], date[known] - evidence.first), 1)
    return out


def _chance(spectrum: NDArray[np.complex128], instants: int) -> Floats:
    """The shares of gaps between independent dates, from their correlation: (gaps,)."""
    circular = np.maximum(np.fft.irfft(spectrum, 2 * instants), 0)
    gaps = np.arange(-(instants - 1), instants)
    shares = np.bincount(np.clip(gaps, -REACH, REACH) + REACH, circular[gaps], 2 * REACH + 1)
    found: Floats = shares / max(shares.sum(), 1e-300)
    return found


def _density(counts: Floats) -> Floats:
    """Counts over gaps as a density, with spikes where there are cases and smooth where there are few."""
    total = counts.sum(-1, keepdims=True)
    wide = _smooth(counts, WIDE) / np.maximum(total, 1e-300)
    narrow = (_smooth(counts, NARROW) + TO_WIDE * wide) / (total + TO_WIDE)
    spiky = (counts + TO_NARROW * narrow) / (total + TO_NARROW)
    density: Floats = (1 - UNIFORM) * spiky + UNIFORM / counts.shape[-1]
    return density


def _smooth(counts: Floats, scale: float) -> Floats:
    """Counts, each spread over the gaps about it by a Laplace kernel that sums to 1 within the axis."""
    gaps = np.arange(counts.shape[-1])
    kernel = np.exp(-np.abs(gaps[:, None] - gaps) / scale)
    smooth: Floats = counts @ (kernel / kernel.sum(1, keepdims=True))
    return smooth
