"""The contract of every gadget: something fitted on the training facts that adds to a model's score.

A gadget answers like a model, in rows, one a query; instants are positions on the timeline, relations are those of the
KB (never inverse ones). The laws, tested for every registered gadget (timeplex.testing):

    score_at(s, r, o, t) = objects_at(s, r, t)[o] = subjects_at(r, o, t)[s] = times(s, r, o)[t]
    no evidence → 0; the fact that is asked for is no evidence for itself; the answer does not depend on the batch;
    finite for any gap; the reasons sum to the score, and each can be said in words.

In training each query is a training fact: `own` then names its place in the evidence (−1: it has none), and the fact
does not count at any time. Without `own`, a fact that says exactly what is asked, at that time, does not count.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from timeplex.gadgets.evidence import Evidence
from timeplex.models.scorer import Direction
from timeplex.registry import register_in
from timeplex.text import Describer

Form = Literal["paper", "published-code"]

LEAST_SIGMA = 0.1
"""Gaussians are not narrower than this (in instants), so that all scores are finite."""


class GadgetOptions(BaseModel):
    """Settings of a gadget; a gadget adds its own fields. An unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    weight: float = Field(1.0, ge=0, le=1e6, description="What its score is multiplied with (κ, λ of the paper).")
    learning_rate: float = Field(0.1, gt=0, description="Size of the steps in phase 2.")
    try_weights: tuple[Annotated[float, Field(ge=0, le=1e6)], ...] = Field(
        (), max_length=100, description="Other weights to try on dev after training; the best stays."
    )
    form: Form = Field("paper", description="As the paper says, or as the published code does.")


@dataclass(frozen=True)
class Reason:
    """A training fact and what it adds to a gadget's score.

    fact    its row in the training facts
    side    the entity that it shares with the query: subject, object, or both
    gap     instants from the fact to the query; negative if the fact is later
    value   its share of the score
    """

    fact: int
    side: Literal["subject", "object", "both"]
    gap: int
    value: float


class Gadget(nn.Module, ABC):
    """A score for every (s, r, o, t) from the evidence for it."""

    name: ClassVar[str]
    options_type: ClassVar[type[GadgetOptions]] = GadgetOptions

    def __init__(self, evidence: Evidence, options: Any) -> None:
        super().__init__()
        self.evidence = evidence
        self.options = options
        self.strength: Tensor  # what the scores are multiplied with when they are added to a model's
        self.register_buffer("strength", torch.tensor(options.weight))

    @abstractmethod
    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n,) in and out."""

    @abstractmethod
    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """Scores of all entities as objects: (n,) in, (n, entities) out."""

    @abstractmethod
    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """Scores of all entities as subjects: (n,) in, (n, entities) out."""

    @abstractmethod
    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        """Scores of all instants: (n,) in, (n, instants) out."""

    def add_to(self, rows: Tensor, direction: Direction, given: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Add strength · score of all entities as subjects or objects to rows (n, entities), in place.

        What all entities of a row have alike may be left out: it changes neither their order nor a softmax. No gradient
        goes through it.
        """
        scores = self.objects_at(given, r, t) if direction == "object" else self.subjects_at(r, given, t)
        return rows.add_(scores, alpha=float(self.strength))

    @abstractmethod
    def reasons(self, s: int, r: int, o: int, t: int) -> list[Reason]:
        """The training facts behind a score, strongest first; their values sum to it."""

    def sentence(self, reason: Reason, relation: int, words: Describer) -> str:
        """A reason for a question about a relation in one sentence without a full stop: the fact, and what it means."""
        return f"{words.dated(reason.fact)}; the question lies {words.apart(reason.gap)}"

    def penalty(self) -> Tensor:
        """What the loss of phase 2 adds, to keep weights small."""
        return torch.zeros(())


GADGETS: dict[str, type[Gadget]] = {}


def register(name: str) -> Callable[[type[Gadget]], type[Gadget]]:
    """Make a gadget known by a name: `@register("mygadget")` above its class."""
    return register_in(GADGETS, name)


def verdict(gap: float, mean: float, sigma: float) -> str:
    """Whether a gap is what the training facts have: up to one deviation off it fits, up to two it nearly does."""
    off = abs(gap - mean)
    if off <= sigma:
        return "fits"
    return "nearly fits" if off <= 2 * sigma else "does not fit"
