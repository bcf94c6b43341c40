"""Walks: who else stands where x stands, and to whom do they have relation r?

A walk goes from x over two (or four) facts to an entity w, and over one fact (w, r, c) to an answer. Each step takes
every fact of the entity that it leaves with the same probability: an entity with many facts says little of each.

    W(c) = Σ_{z, w} p(z | x) p(w | z) p_r(c | w),    p(z | x) = facts of x with z / facts of x,
                                                     p_r(c | w) = facts (w, r, c) / facts (w, r, ·)

    walk             as above
    timed walk       each step also has the weight exp(−|Δ| / 4), Δ the gap to the date of the question in years; a step
                     without a date has e⁻³, and all have 1 if the question has none
    collaborative    x –r– z –r⁻¹– w –r– c: who shares z with x
    timed collaborative, long walk (five steps), long collaborative

No walk comes back to x, and entities with more than 200 facts are not walked through. The features are
log(1 + W(c) / ε). The fact that a question was made of is left out of all steps and counts.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from timeplex.patterns.base import Features, LinkQueries, Pattern, register
from timeplex.patterns.graph import NO_DATE, Graph, edges_of
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.patterns.rules import HUB
from timeplex.typing import Ints

FLOOR = 1e-4
"""ε: what a probability is measured against."""
SCALE = 4.0
"""Years within which the weight of a timed step falls to 1/e."""
UNDATED = float(np.exp(-3.0))

KINDS = ("walk", "timed walk", "collaborative", "timed collaborative", "long walk", "long collaborative")
_ANY = -1

Mass = NDArray[np.float64]


@register("walks")
class Walks(Pattern):
    """Six kinds of walks; see the module."""

    candidate_features = KINDS

    def candidates(self, queries: LinkQueries) -> Features:
        """log(1 + W/ε) of each entity and kind of walk: (n, 6, entities)."""
        evidence = self.evidence
        scale = SCALE * INSTANTS_A_YEAR[evidence.granularity]
        columns = (queries.x, queries.r, queries.date, queries.own)
        found: Features = _walks(evidence.graph, evidence.relations, scale, *columns)
        return found


class _Question(NamedTuple):
    """Where a walk starts, the date that timed steps are weighed against (NO_DATE: all alike), what is left out."""

    x: int
    date: int
    own: int
    scale: float


@njit(cache=True)
def _step(links: Graph, asked: _Question, mass: Mass, relation: int, last: bool) -> Mass:
    """Where a step over facts with the relation (any: −1) leads: mass of each entity, (entities,)."""
    out = np.zeros_like(mass)
    for entity in range(len(mass)):
        if mass[entity] == 0 or (entity != asked.x and links.start[entity + 1] - links.start[entity] > HUB):
            continue
        low, high = links.start[entity], links.start[entity + 1]
        if relation != _ANY:
            low, high = edges_of(links, entity, relation)
        facts = 0
        for i in range(low, high):
            facts += links.fact[i] != asked.own
        for i in range(low, high):
            if links.fact[i] != asked.own:
                out[links.y[i]] += mass[entity] / facts * _weight(asked, links.date[i])
    if not last:
        out[asked.x] = 0
    return out


@njit(cache=True)
def _weight(asked: _Question, date: int) -> float:
    if asked.date == NO_DATE:
        return 1.0
    return UNDATED if date == NO_DATE else np.exp(-abs(asked.date - date) / asked.scale)


@njit(cache=True)
def _walks(links: Graph, relations: int, scale: float, x: Ints, r: Ints, date: Ints, own: Ints) -> Features:
    entities = len(links.start) - 1
    out = np.zeros((len(x), len(KINDS), entities), np.float32)
    for q in range(len(x)):
        there, back = r[q], (r[q] + relations) % (2 * relations)
        start = np.zeros(entities)
        start[x[q]] = 1
        plain = _Question(x[q], NO_DATE, own[q], scale)
        for timed in range(2):
            asked = _Question(x[q], date[q] if timed else NO_DATE, own[q], scale)
            two = _step(links, asked, _step(links, asked, start, _ANY, False), _ANY, False)
            shared = _step(links, asked, _step(links, asked, start, there, False), back, False)
            out[q, timed] = _step(links, asked, two, there, True)
            out[q, 2 + timed] = _step(links, asked, shared, there, True)
            if not timed:
                four = _step(links, plain, _step(links, plain, two, _ANY, False), _ANY, False)
                out[q, 4] = _step(links, plain, four, there, True)
                again = _step(links, plain, _step(links, plain, shared, there, False), back, False)
                out[q, 5] = _step(links, plain, again, there, True)
        for kind in range(len(KINDS)):
            for c in range(entities):
                if out[q, kind, c] > 0:
                    out[q, kind, c] = np.log1p(out[q, kind, c] / FLOOR)
    return out
