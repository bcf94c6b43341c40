"""Models with one vector an entity, a relation vector that may depend on time, and a scorer.

    φ(s, r, o, t) = scorer(s, r(t), o)

The time-agnostic models are the case r(t) = r; TA is the case of a sequence encoder.
"""

from typing import Any

from torch import Tensor

from timeplex.models.algebra import broadcast
from timeplex.models.base import Space
from timeplex.models.scorers import Scorer
from timeplex.models.sides import Side, SideModel


class VectorModel(SideModel):
    """One table of entities; subclasses may make the relation's vector depend on time."""

    def __init__(self, space: Space, options: Any, scorer: Scorer) -> None:
        super().__init__(space, options)
        self.scorer = scorer
        width = scorer.width(options.dimension)
        self.entity = self.table(space.entities, width)
        self.relation = self.table(space.relations, width)

    def relation_vectors(self, r: Tensor, t: Tensor) -> Tensor:
        """The vectors of relations at instants: (…) and (…) → (…, width)."""
        return self.relation[broadcast(r, t)[0]]

    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> Side:
        """The side of (s, r, ?, t)."""
        query = self.scorer.object_query(self.rows(self.entity, s), self.relation_vectors(r, t))
        return Side(query, self.entity, norm=self.scorer.norm)

    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> Side:
        """The side of (?, r, o, t)."""
        query = self.scorer.subject_query(self.relation_vectors(r, t), self.rows(self.entity, o))
        return Side(query, self.entity, norm=self.scorer.norm)

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """s, r(t) and o."""
        return [self.rows(self.entity, s), self.relation_vectors(r, t), self.rows(self.entity, o)]


class StaticModel(VectorModel):
    """A model that does not know time: its score is the same at all instants."""

    uses_time = False
