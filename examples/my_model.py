"""A model of one's own: DistMult whose dimensions count more or less from time to time."""

from torch import Tensor

from timeplex.models import Options, Space, register
from timeplex.models.query_vector import QueryVector, TimeLinearModel


@register("t-distmult")
class TimeDistMult(TimeLinearModel):
    """φ(s, r, o, t) = Σ s · r · (1 + t) · o."""

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.entity = self.table(space.entities, options.dimension)
        self.relation = self.table(space.relations, options.dimension)
        self.time = self.table(space.instants, options.dimension)

    def object_side_with(self, s: Tensor, r: Tensor, time: Tensor) -> QueryVector:
        """What the objects are multiplied with."""
        return QueryVector(self.rows(self.entity, s) * self.rows(self.relation, r) * (1 + time), self.entity)

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> QueryVector:
        """What the subjects are multiplied with."""
        return QueryVector(self.rows(self.entity, o) * self.rows(self.relation, r) * (1 + time), self.entity)

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """What the times are multiplied with, and what does not depend on time."""
        fact = self.rows(self.entity, s) * self.rows(self.relation, r) * self.rows(self.entity, o)
        return QueryVector(fact, self.time, lambda: fact.sum(-1))

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """What is kept small."""
        tables = ((self.entity, s), (self.entity, o), (self.relation, r), (self.time, t))
        return [self.rows(table, number) for table, number in tables]
