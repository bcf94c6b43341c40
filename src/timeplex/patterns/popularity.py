"""Popularity in time: who stands in this role often, about then, and just then; who leaves as another comes.

The role of a question (x, r, ?) is to be the answer of r, whoever x is. With f over the facts (·, r, c) of an entity c,
t_f their dates and y the date of the question, the features of c are

    popular            log(1 + #f)
    popular within k   log(1 + Σ_f exp(−|y − t_f| / k) / 0.1),  k = 1.5, 6 and 25 years
    holds              log(1 + #f that hold at y)
    ends there         log(1 + #f that end in the instant, or the one before, in which the question begins)
    begins there       log(1 + #f that begin in the instant, or the one after, in which it ends)

A fact with an open begin or end holds on that side for ever, but one without any date holds at no time. The own fact of
a question is none of them.
"""

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Evidence, Features, LinkQueries, Pattern, register
from timeplex.patterns.graph import NO_DATE, Graph
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.typing import Floats, Ints

SCALES = (1.5, 6.0, 25.0)
FLOOR = 0.1


@register("popularity")
class Popularity(Pattern):
    """Counts and kernels of the facts that an entity has in a role; see the module."""

    candidate_features = (
        "popular",
        *(f"popular within {scale:g} years" for scale in SCALES),
        "holds",
        "ends there",
        "begins there",
    )

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        # The edges of the entities in each role, in the order of the graph.
        links = evidence.graph
        self.entity = np.repeat(np.arange(evidence.entities), np.diff(links.start))
        self.order = np.argsort(links.r, kind="stable")
        self.start = np.searchsorted(links.r[self.order], np.arange(2 * evidence.relations + 1))

    def candidates(self, queries: LinkQueries) -> Features:
        """Counts and kernels, logarithmic: (n, 7, entities)."""
        evidence = self.evidence
        role = (queries.r + evidence.relations) % max(2 * evidence.relations, 1)
        scales = np.array(SCALES) * INSTANTS_A_YEAR[evidence.granularity]
        columns = (role, queries.begin, queries.end, queries.date, queries.own)
        found: Features = _scores(evidence.graph, self.entity, self.order, self.start, scales, *columns)
        return found


@njit(cache=True)
def _scores(
    links: Graph,
    entity: Ints,
    order: Ints,
    start: Ints,
    scales: Floats,
    role: Ints,
    begin: Ints,
    end: Ints,
    date: Ints,
    own: Ints,
) -> Features:
    kernels = len(scales)
    out = np.zeros((len(role), kernels + 4, len(links.start) - 1), np.float32)
    for q in range(len(role)):
        for i in order[start[role[q]] : start[role[q] + 1]]:
            if links.fact[i] == own[q]:
                continue
            c, first, last = entity[i], links.begin[i], links.end[i]
            out[q, 0, c] += 1
            if date[q] != NO_DATE and links.date[i] != NO_DATE:
                for k in range(kernels):
                    out[q, 1 + k, c] += np.exp(-abs(date[q] - links.date[i]) / scales[k]) / FLOOR
                out[q, kernels + 1, c] += first <= date[q] <= last
            if begin[q] != spans.OPEN_BEGIN and last != spans.OPEN_END:
                out[q, kernels + 2, c] += 0 <= begin[q] - last <= 1
            if end[q] != spans.OPEN_END and first != spans.OPEN_BEGIN:
                out[q, kernels + 3, c] += 0 <= first - end[q] <= 1
        for feature in range(kernels + 4):
            for c in range(len(links.start) - 1):
                if out[q, feature, c] > 0:
                    out[q, feature, c] = np.log1p(out[q, feature, c])
    return out
