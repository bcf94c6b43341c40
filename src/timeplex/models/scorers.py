"""How three vectors become a score: TransE, DistMult and ComplEx, for the models that choose their scorer."""

from abc import ABC, abstractmethod
from typing import Literal

from torch import Tensor

from timeplex.models.algebra import multiply, multiply_conjugate

ScorerName = Literal["transe", "distmult", "complex"]


class Scorer(ABC):
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


class DistMultScorer(Scorer):
    """φ = Σ s · r · o."""

    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """s ∘ r."""
        return s * r

    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """r ∘ o."""
        return r * o


class ComplExScorer(Scorer):
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


class TransEScorer(Scorer):
    """φ = −‖s + r − o‖ₚ."""

    def __init__(self, norm: int = 1) -> None:
        self.norm = norm

    def object_query(self, s: Tensor, r: Tensor) -> Tensor:
        """s + r."""
        return s + r

    def subject_query(self, r: Tensor, o: Tensor) -> Tensor:
        """o − r."""
        return o - r


def scorer(name: ScorerName, norm: int = 1) -> Scorer:
    """The scorer of that name; `norm` is TransE's p."""
    if name == "transe":
        return TransEScorer(norm)
    return DistMultScorer() if name == "distmult" else ComplExScorer()
