"""Models with one vector an entity, a relation vector that may depend on time, and a scorer.

    φ(s, r, o, t) = scorer(s, r(t), o)

DistMult, ComplEx and TransE are the case r(t) = r; TA (`ta.py`) is the case of a sequence encoder. SimplE, which has
two vectors an entity, does not know time either.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from timeplex.models import base
from timeplex.models.base import Options, Space, register
from timeplex.models.query_vector import QueryVector, QueryVectorModel, broadcast, multiply, multiply_conjugate

ScorerName = Literal["transe", "distmult", "complex"]


class TripleScorer(NamedTuple):
    """Turns (s, r) into the query that objects are compared with, and (r, o) into the one for subjects."""

    object_query: Callable[[Tensor, Tensor], Tensor]
    subject_query: Callable[[Tensor, Tensor], Tensor]
    parts: int = 1  # 2 if a row holds real and imaginary parts
    norm: int | None = None  # as in `QueryVector`


def scorer(name: ScorerName, norm: int = 1) -> TripleScorer:
    """The scorer of that name; `norm` is TransE's p. Re⟨s, r, ō⟩ is the dot product of s and r̄ ∘ o."""
    if name == "transe":
        return TripleScorer(lambda s, r: s + r, lambda r, o: o - r, norm=norm)
    if name == "distmult":
        return TripleScorer(lambda s, r: s * r, lambda r, o: r * o)
    return TripleScorer(multiply, multiply_conjugate, parts=2)


class VectorModel(QueryVectorModel):
    """One table of entities; subclasses may make the relation's vector depend on time."""

    uses_time = False
    scored_by: ClassVar[ScorerName | None] = None  # None: the options say

    def __init__(self, space: Space, options: Any) -> None:
        super().__init__(space, options)
        self.scorer = scorer(self.scored_by or options.scorer, getattr(options, "norm", 1))
        width = self.scorer.parts * options.dimension
        self.entity = self.table(space.entities, width)
        self.relation = self.table(space.relations, width)

    def relation_vectors(self, r: Tensor, t: Tensor) -> Tensor:
        """The vectors of relations at instants: (…) and (…) → (…, width)."""
        return self.relation[broadcast(r, t)[0]]

    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> QueryVector:
        query = self.scorer.object_query(self.rows(self.entity, s), self.relation_vectors(r, t))
        return QueryVector(query, self.entity, norm=self.scorer.norm)

    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> QueryVector:
        query = self.scorer.subject_query(self.relation_vectors(r, t), self.rows(self.entity, o))
        return QueryVector(query, self.entity, norm=self.scorer.norm)

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [self.rows(self.entity, s), self.relation_vectors(r, t), self.rows(self.entity, o)]


@register("distmult")
class DistMult(VectorModel):
    """φ(s, r, o) = Σ_d s[d] · r[d] · o[d] with real vectors; symmetric in s and o.

    Yang et al. 2015: a relation weighs the agreement of subject and object, feature by feature.
    """

    scored_by = "distmult"


@register("complex")
class ComplEx(VectorModel):
    """φ(s, r, o) = Re⟨s, r, ō⟩ = Re Σ_d s[d] · r[d] · ō[d] with complex vectors.

    Trouillon et al. 2016: DistMult with complex vectors, which can tell subject from object.
    """

    scored_by = "complex"


class TransEOptions(base.Options):
    """Settings of TransE."""

    norm: Literal[1, 2] = Field(1, description="The norm of the distance: 1 or 2.")


@register("transe")
class TransE(VectorModel):
    """φ(s, r, o) = −‖s + r − o‖ₚ with real vectors.

    Bordes et al. 2013: a relation is a translation from subject to object.
    """

    options_type = TransEOptions
    scored_by = "transe"


@register("simple")
class SimplE(QueryVectorModel):
    """φ(s, r, o) = ½ (⟨head_s, r, tail_o⟩ + ⟨head_o, r⁻¹, tail_s⟩) with real vectors.

    Kazemi and Poole 2018: an entity has one vector as subject and one as object. A row of `entity` is [head | tail], a
    row of `relation` is [r | r⁻¹].
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
        return [self.rows(self.entity, s), self.rows(self.relation, r), self.rows(self.entity, o)]
