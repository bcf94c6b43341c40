"""Nearness: who lives among the entities of x, or among those that stand where the answer is to stand.

A walk goes from entity to entity over facts of any relation, each with the same probability, in both directions. Before
each step it goes on with probability α; where it stops is its end, after `STEPS` steps at the latest:

    N(c) = Σ_{k < K} (1 − α) αᵏ p_k(c) + α^K p_K(c),    p_{k+1}(c) = Σ_w p_k(w) · facts of w with c / facts of w

This is PageRank with a restart. p₀ is x itself, or the known answers of (x, r, ?), each as often as it is known. The
share of c that is due to its number of facts alone is d(c) = facts of c / facts of all. The features, for either start,

    near            log(1 + N(c) / ε)              α = 0.85, ε = 10⁻⁵
    near for size   log(1 + N(c) / d(c) / 0.1)     α = 0.85
    about           log(1 + N(c) / d(c) / 0.1)     α = 0.95

see what is no path of a few facts: towns, schools and employers of one region have many inhabitants in common, so that
who studied in one of them was probably born in another; members of one band of players share clubs. From the known
answers, c is near if it resembles them, though no fact of r can lead there because each answer has r only once.

The own fact of a question is no step, and counts in no number of facts. Who has no other fact is near to nobody.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.patterns.base import LinkQueries, Pattern, register
from timeplex.patterns.graph import Graph, edges_of
from timeplex.typing import Features, Ints

GO_ON = (0.85, 0.95)
STEPS = 20
FLOOR, SIZE_FLOOR = 1e-5, 0.1
TOGETHER = 8
"""Walks of so many questions are taken side by side, which a processor does nearly as fast as one."""

Mass = NDArray[np.float64]
FEATURES = ("near", "near for size", "about")


@register("nearness")
class Nearness(Pattern):
    """Walks with restart from x and from the known answers; see the module."""

    candidate_features = tuple(f"{name}{start}" for start in ("", " its answers") for name in FEATURES)

    def candidates(self, queries: LinkQueries) -> Features:
        """Three features for walks from x, then three for those from the known answers: (n, 6, entities)."""
        links, evidence = self.evidence.graph, self.evidence
        out = np.zeros((len(queries), len(self.candidate_features), evidence.entities), np.float32)
        ends = np.full((len(queries), 2), -1)
        asked = queries.own >= 0
        if asked.any():
            facts = evidence.facts
            ends[asked] = np.stack([facts.s[queries.own[asked]], facts.o[queries.own[asked]]], 1)
        for at in range(0, len(queries), TOGETHER):
            part = slice(at, at + TOGETHER)
            own = queries.own[part], ends[part]
            for place, start in enumerate((_itself, _answers)):
                begun = start(links, queries.x[part], queries.r[part], queries.own[part])
                width = len(FEATURES)
                _near(links, begun, *own, out[part, width * place : width * (place + 1)])
        return out


@njit(cache=True)
def _itself(links: Graph, x: Ints, r: Ints, own: Ints) -> Mass:
    """All mass at x: (entities, n)."""
    mass = np.zeros((len(links.start) - 1, len(x)))
    for q in range(len(x)):
        mass[x[q], q] = 1.0
    return mass


@njit(cache=True)
def _answers(links: Graph, x: Ints, r: Ints, own: Ints) -> Mass:
    """The known answers of each question, in sum 1: (entities, n); nothing if there is none."""
    mass = np.zeros((len(links.start) - 1, len(x)))
    for q in range(len(x)):
        low, high = edges_of(links, x[q], r[q])
        known = 0
        for i in range(low, high):
            known += links.fact[i] != own[q]
        for i in range(low, high):
            if links.fact[i] != own[q]:
                mass[links.y[i], q] += 1.0 / known
    return mass


@njit(cache=True)
def _near(links: Graph, mass: Mass, own: Ints, ends: Ints, out: Features) -> None:
    """Fill the features of walks that start at a mass (entities, n): out (n, 3, entities)."""
    entities, n = mass.shape
    near, about, after = np.zeros_like(mass), np.zeros_like(mass), np.empty_like(mass)
    share = np.array([1.0, 1.0])
    for _ in range(STEPS):
        for c in range(entities):
            for q in range(n):
                near[c, q] += (1 - GO_ON[0]) * share[0] * mass[c, q]
                about[c, q] += (1 - GO_ON[1]) * share[1] * mass[c, q]
        _step(links, mass, own, ends, after)
        mass, after = after, mass
        share[0] *= GO_ON[0]
        share[1] *= GO_ON[1]
    for q in range(n):
        total = float(links.start[entities]) - 2.0 * (own[q] >= 0)
        for c in range(entities):
            facts = float(links.start[c + 1] - links.start[c])
            if own[q] >= 0:
                facts -= 1.0 * (ends[q, 0] == c) + 1.0 * (ends[q, 1] == c)
            if facts <= 0:
                continue
            there = near[c, q] + share[0] * mass[c, q]
            far = about[c, q] + share[1] * mass[c, q]
            out[q, 0, c] = np.log1p(there / FLOOR)
            out[q, 1, c] = np.log1p(there * total / facts / SIZE_FLOOR)
            out[q, 2, c] = np.log1p(far * total / facts / SIZE_FLOOR)


@njit(cache=True)
def _step(links: Graph, mass: Mass, own: Ints, ends: Ints, after: Mass) -> None:
    """Where one more step leads: (entities, n), as if the own fact of each question were not there."""
    entities, n = mass.shape
    after[:] = 0.0
    for w in range(entities):
        low, high = links.start[w], links.start[w + 1]
        some = False
        for q in range(n):
            some |= mass[w, q] != 0
        if not some:
            continue
        for i in range(low, high):
            c = links.y[i]
            for q in range(n):
                after[c, q] += mass[w, q] / (high - low)
    for q in range(n):  # all facts were counted: what the own one changes at its two ends is set right
        if own[q] < 0:
            continue
        for which in range(2 if ends[q, 0] != ends[q, 1] else 1):
            w = ends[q, which]
            low, high = links.start[w], links.start[w + 1]
            facts = 0
            for i in range(low, high):
                facts += links.fact[i] != own[q]
            for i in range(low, high):
                right = 1.0 / facts if links.fact[i] != own[q] else 0.0
                after[links.y[i], q] += mass[w, q] * (right - 1.0 / (high - low))
