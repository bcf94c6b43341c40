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

from timeplex.patterns.base import Evidence, Features, LinkQueries, Pattern, register
from timeplex.typing import Floats, Ints

PRIOR = 2.0


@register("types")
class Types(Pattern):
    """How many facts each entity has in each role: (entities, 2R)."""

    candidate_features = ("has the role", "type", "worst type", "degree", "itself")

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        roles = 2 * evidence.relations
        self.facts = np.bincount(evidence.x * roles + evidence.r, minlength=evidence.entities * roles)
        self.facts = self.facts.reshape(evidence.entities, roles)
        self._roles: dict[int, Features] = {}

    def candidates(self, queries: LinkQueries) -> Features:
        """Role, lifts, degree, and whether it is x: (n, 5, entities)."""
        evidence = self.evidence
        role = (queries.r + evidence.relations) % max(2 * evidence.relations, 1)
        out = np.zeros((len(queries), 5, evidence.entities), np.float32)
        for row, (asked, own) in enumerate(zip(role.tolist(), queries.own.tolist(), strict=True)):
            out[row, :4] = self._of_all(asked) if own < 0 else self._of_role(self._without(own), asked)
        out[np.arange(len(queries)), 4, queries.x] = 1
        return out

    def _of_all(self, role: int) -> Features:
        if role not in self._roles:
            self._roles[role] = self._of_role(self.facts, role)
        return self._roles[role]

    def _without(self, fact: int) -> Ints:
        """The counts without one fact."""
        facts, evidence = self.facts.copy(), self.evidence
        for row in (fact, fact + len(evidence)):
            facts[evidence.x[row], evidence.r[row]] -= 1
        return facts

    def _of_role(self, facts: Ints, role: int) -> Features:
        """The features of all entities that do not depend on x: (4, entities)."""
        has = facts > 0
        lift = _lift(has, role)
        other = np.delete(has, role, axis=1)
        lift = np.delete(lift, role)
        number = other.sum(1)
        mean = np.where(number > 0, other @ lift / np.maximum(number, 1), 0)
        worst = np.where(number > 0, np.where(other, lift, np.inf).min(1, initial=np.inf), 0)
        return np.stack([has[:, role], mean, worst, np.log1p(facts.sum(1))]).astype(np.float32)


def _lift(has: np.ndarray, role: int) -> Floats:
    """lift(q → role) of each role q: (2R,)."""
    entities = has.any(1).sum()
    share = (has[:, role].sum() + 1) / (entities + 2)
    both, each = has[has[:, role]].sum(0), has.sum(0)
    lift: Floats = np.log((both + PRIOR * share) / (each + PRIOR) / share)
    return lift
