"""Models with one vector an entity, a relation vector that may depend on time, and a scorer.

    φ(s, r, o, t) = scorer(s, r(t), o)

The time-agnostic models are the case r(t) = r; TA is the case of a sequence encoder.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

from torch import Tensor

from timeplex.models.base import Space
from timeplex.models.query_vector import QueryVector, QueryVectorModel, broadcast, multiply, multiply_conjugate

ScorerName = Literal["transe", "distmult", "complex"]


class TripleScorer(ABC):
    """Turns (s, r) into the query that objects are compared with, and (r, o) into the one for subjects."""

    norm: int | None = None  # as in `Side`

    def width(self, dimension: int) -> int:
        """Length of a row for embeddings of this dimension."""
        return dimension

    @abstractmethod
    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """What objects are compared with."""

    @abstractmethod
    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """What subjects are compared with."""


class DistMultScorer(TripleScorer):
    """φ = Σ s · r · o."""

    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """s ∘ r."""
        return s * r

    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """r ∘ o."""
        return r * o


class ComplExScorer(TripleScorer):
    """φ = Re⟨s, r, ō⟩ of complex vectors."""

    def width(self, dimension: int) -> int:
        """Real and imaginary parts."""
        return 2 * dimension

    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """s ∘ r."""
        return multiply(s, r)

    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """r̄ ∘ o, because Re⟨s, r, ō⟩ is the dot product of s and r̄ ∘ o."""
        return multiply_conjugate(r, o)


class TransEScorer(TripleScorer):
    """φ = −‖s + r − o‖ₚ."""

    def __init__(self, norm: int = 1) -> None:
        self.norm = norm

    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """s + r."""
        return s + r

    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """o − r."""
        return o - r


def scorer(name: ScorerName, norm: int = 1) -> TripleScorer:
    """The scorer of that name; `norm` is TransE's p."""
    if name == "transe":
        return TransEScorer(norm)
    return DistMultScorer() if name == "distmult" else ComplExScorer()


class VectorModel(QueryVectorModel):
    """One table of entities; subclasses may make the relation's vector depend on time."""

    def __init__(self, space: Space, options: Any, scorer: TripleScorer) -> None:
        super().__init__(space, options)
        self.scorer = scorer
        width = scorer.width(options.dimension)
        self.entity = self.table(space.entities, width)
        self.relation = self.table(space.relations, width)

    def relation_vectors(self, r: Tensor, t: Tensor) -> Tensor:
        """The vectors of relations at instants: (…) and (…) → (…, width)."""
        return self.relation[broadcast(r, t)[0]]

    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> QueryVector:
        """The side of (s, r, ?, t)."""
        query = self.scorer.object_query(self.rows(self.entity, s), self.relation_vectors(r, t))
        return QueryVector(query, self.entity, norm=self.scorer.norm)

    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> QueryVector:
        """The side of (?, r, o, t)."""
        query = self.scorer.subject_query(self.relation_vectors(r, t), self.rows(self.entity, o))
        return QueryVector(query, self.entity, norm=self.scorer.norm)

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """s, r(t) and o."""
        return [self.rows(self.entity, s), self.relation_vectors(r, t), self.rows(self.entity, o)]


class StaticModel(VectorModel):
    """A model that does not know time: its score is the same at all instants."""

    uses_time = False
