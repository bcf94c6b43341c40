"""Types: cities have other roles than persons. What c is shows in the roles that it has, apart from the one asked for.

The role ρ of an entity is a directed relation that it has facts of; to answer (x, r, ?) is the role r⁻¹. The lift of a
role q for ρ compares the entities that have both with those that have either,

    lift(q → ρ) = log [ (n_{q∧ρ} + a p_ρ) / (n_q + a) / p_ρ ],   p_ρ = (n_ρ + 1) / (n + 2),   a = 2

over the n entities that have a fact. The features of c are

    has the role    1 if c has ρ
    type            mean lift of its other roles; of none, 0
    worst type      the lowest of them
    degree          log(1 + facts of c)
    itself          1 if c = x

The own fact of a question is left out of all counts.
"""

import numpy as np
from numba import njit

from timeplex.patterns.base import LinkQueries, Pattern, register
from timeplex.patterns.graph import Graph
from timeplex.typing import Features, Floats

PRIOR = 2.0


@register("types")
class Types(Pattern):
    """The roles of each entity, as they stand in the graph of facts."""

    candidate_features = ("has the role", "type", "worst type", "degree", "itself")

    def candidates(self, queries: LinkQueries) -> Features:
        """Role, lifts, degree, and whether it is x: (n, 5, entities)."""
        evidence = self.evidence
        roles = 2 * evidence.relations
        role = (queries.r + evidence.relations) % max(roles, 1)
        out = np.zeros((len(queries), 5, evidence.entities), np.float32)
        both, each = np.empty(roles), np.empty(roles)
        for row, (asked, own) in enumerate(zip(role.tolist(), queries.own.tolist(), strict=True)):
            same = row and (asked, own) == (role[row - 1], queries.own[row - 1])
            if same:
                out[row, :4] = out[row - 1, :4]
            else:
                _profiles(evidence.graph, asked, own, both, each, out[row])
        out[np.arange(len(queries)), 4, queries.x] = 1
        return out


@njit(cache=True)
def _profiles(links: Graph, role: int, own: int, both: Floats, each: Floats, out: Features) -> None:
    """Fill the features of all entities that do not depend on x: out (5, entities), which is 0 before."""
    entities = len(links.start) - 1
    seen = 0
    both[:] = 0
    each[:] = 0
    for c in range(entities):
        low, high = links.start[c], links.start[c + 1]
        facts = 0
        for i in range(low, high):
            facts += links.fact[i] != own
            if links.r[i] == role and links.fact[i] != own:
                out[0, c] = 1
        out[3, c] = np.log1p(facts)
        seen += facts > 0
        last = -1
        for i in range(low, high):
            if links.fact[i] != own and links.r[i] != last:
                last = links.r[i]
                each[last] += 1
                both[last] += out[0, c]
    share = (each[role] + 1) / (seen + 2)
    lift = np.log((both + PRIOR * share) / (each + PRIOR) / share)
    for c in range(entities):
        last, number, total, worst = -1, 0, 0.0, np.inf
        for i in range(links.start[c], links.start[c + 1]):
            if links.fact[i] != own and links.r[i] != last:
                last = links.r[i]
                if last != role:
                    number += 1
                    total += lift[last]
                    worst = min(worst, lift[last])
        if number:
            out[1, c] = total / number
            out[2, c] = worst
