"""SimplE (Kazemi and Poole 2018): an entity has one vector as subject and one as object."""

import torch
from torch import Tensor

from timeplex.models.base import Options, Space, register
from timeplex.models.query_vector import QueryVector, QueryVectorModel, broadcast


@register("simple")
class SimplE(QueryVectorModel):
    """φ(s, r, o) = ½ (⟨head_s, r, tail_o⟩ + ⟨head_o, r⁻¹, tail_s⟩) with real vectors.

    A row of `entity` is [head | tail], a row of `relation` is [r | r⁻¹].
    """

    uses_time = False

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.entity = self.table(space.entities, 2 * options.dimension)
        self.relation = self.table(space.relations, 2 * options.dimension)

    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> QueryVector:
        """Objects meet r⁻¹ ∘ tail_s with their head and head_s ∘ r with their tail."""
        s, r, _ = broadcast(s, r, t)
        head, tail = self.rows(self.entity, s).chunk(2, dim=-1)
        forward, backward = self.rows(self.relation, r).chunk(2, dim=-1)
        return QueryVector(torch.cat([backward * tail, head * forward], dim=-1) / 2, self.entity)

    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> QueryVector:
        """Subjects meet r ∘ tail_o with their head and head_o ∘ r⁻¹ with their tail."""
        r, o, _ = broadcast(r, o, t)
        head, tail = self.rows(self.entity, o).chunk(2, dim=-1)
        forward, backward = self.rows(self.relation, r).chunk(2, dim=-1)
        return QueryVector(torch.cat([forward * tail, head * backward], dim=-1) / 2, self.entity)

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """All four vectors of the fact."""
        return [self.rows(self.entity, s), self.rows(self.relation, r), self.rows(self.entity, o)]
