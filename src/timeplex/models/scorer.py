"""What answers are ranked by: a model, its inverse relations, and what gadgets add.

    φ(s, r, o, T) = φ_model(s, r, o, T) + Σ strength · φ_gadget(s, r, o, t_b),     t_b: the begin of T

A model that was trained with inverse relations has two readings of a fact, (s, r, o) and (o, r⁻¹, s): the first answers
(s, r, ?), the second (?, r, o), and an instant has the sum of both. Gadgets always see the relation itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from timeplex.models.base import Model, Span
from timeplex.models.query_vector import TimeLinearModel

Direction = Literal["subject", "object"]
DIRECTIONS: tuple[Direction, Direction] = ("subject", "object")

MODEL = "model"
"""The name of the model among the parts of a score."""


class Addend(Protocol):
    """What a scorer asks of a gadget; `own` names training facts that are no evidence for themselves."""

    @property
    def strength(self) -> Tensor:
        """What its scores are multiplied with."""

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n,)."""

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities)."""

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities)."""

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, instants)."""

    def add_to(self, rows: Tensor, direction: Direction, given: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Strength · score of all entities, up to what they have alike, added to rows in place."""

    def reasons(self, s: int, r: int, o: int, t: int) -> Sequence[Any]:
        """Training facts, each with the `value` that it adds to the score."""


@dataclass(frozen=True)
class Scorer:
    """A model with what is added to it.

    inverse    whether the model was trained with inverse relations
    gadgets    what is added, by name
    frozen     whether no gradient goes to the model, because the gadgets alone learn

    `own`, (n,), is for training: the places of the queried facts in the gadgets' evidence (−1: none), where they do
    not count.
    """

    model: Model
    inverse: bool = False
    gadgets: Mapping[str, Addend] = field(default_factory=dict)
    frozen: bool = False

    @property
    def predicts_times(self) -> bool:
        """Whether scores depend on time: gadgets see it, whatever the model does."""
        return self.model.uses_time or bool(self.gadgets)

    def objects(self, s: Tensor, r: Tensor, span: Span, own: Tensor | None = None) -> Tensor:
        """φ(s, r, ·, T) for all entities: (n, entities)."""
        rows = self._rows("object", s, r, span)
        for gadget in self.gadgets.values():
            rows = torch.add(rows, gadget.objects_at(s, r, span[0], own), alpha=float(gadget.strength))
        return rows

    def subjects(self, r: Tensor, o: Tensor, span: Span, own: Tensor | None = None) -> Tensor:
        """φ(·, r, o, T) for all entities: (n, entities)."""
        rows = self._rows("subject", o, r, span)
        for gadget in self.gadgets.values():
            rows = torch.add(rows, gadget.subjects_at(r, o, span[0], own), alpha=float(gadget.strength))
        return rows

    def score_at(
        self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, direction: Direction, own: Tensor | None = None
    ) -> Tensor:
        """φ(s, r, o, t) as an answer in a direction: (n,) in and out."""
        with self._gradient():
            scores = self.model.score_at(*self._reading(s, r, o, direction), t)
        for gadget in self.gadgets.values():
            scores = scores + gadget.strength * gadget.score_at(s, r, o, t, own)
        return scores

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        """φ(s, r, o, ·) for all instants: (n, instants)."""
        model, *added = self.time_parts(s, r, o, own).values()
        return sum(added, start=model)

    def time_parts(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> dict[str, Tensor]:
        """What the model and each gadget add to `times`, by name: (n, instants) each."""
        with self._gradient():
            scores = self.model.times(s, r, o)
            if self.inverse:
                scores = scores + self.model.times(*self._reading(s, r, o, "subject"))
        added = {name: gadget.strength * gadget.times(s, r, o, own) for name, gadget in self.gadgets.items()}
        return {MODEL: scores, **added}

    def candidates(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        """The scores of all entities, a span's as its mean, up to what all have alike: (n, entities).

        What is left out changes neither their order nor a softmax. A model that is linear in time takes one product.
        """
        model = self.model
        if isinstance(model, TimeLinearModel):
            time, _ = model.mean_time(span)
            if direction == "object" or self.inverse:
                side = model.object_side_with(given, self._relation(r, direction), time)
            else:
                side = model.subject_side_with(r, given, time)
            rows = side.query @ side.table.T
        else:
            rows = self._rows(direction, given, r, span).div_((span[1] - span[0] + 1)[:, None])
        for gadget in self.gadgets.values():
            rows = gadget.add_to(rows, direction, given, r, span[0])
        return rows

    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, direction: Direction) -> dict[str, Tensor]:
        """Named parts that sum to the model's score of an answer in a direction: (n,) each."""
        return self.model.terms(*self._reading(s, r, o, direction), t)

    def reasons(self, s: int, r: int, o: int, t: int) -> list[tuple[float, str, Any]]:
        """What training facts add to φ(s, r, o, t): the value, the gadget's name and its own reason for each."""
        return [
            (float(gadget.strength) * reason.value, name, reason)
            for name, gadget in self.gadgets.items()
            for reason in gadget.reasons(s, r, o, t)
        ]

    def _rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        """The model's scores of all entities as answers: (n, entities)."""
        with self._gradient():
            if direction == "object" or self.inverse:
                return self.model.objects(given, self._relation(r, direction), span)
            return self.model.subjects(r, given, span)

    def _reading(self, s: Tensor, r: Tensor, o: Tensor, direction: Direction) -> tuple[Tensor, Tensor, Tensor]:
        """The fact as the model reads it when it answers in a direction."""
        relation = self._relation(r, direction)
        return (o, relation, s) if self.inverse and direction == "subject" else (s, relation, o)

    def _relation(self, r: Tensor, direction: Direction) -> Tensor:
        inverted = self.inverse and direction == "subject"
        return inverse(r, self.model.space.relations // 2) if inverted else r

    def _gradient(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen)


def inverse(r: Tensor, relations: int) -> Tensor:
    """The numbers of the inverses of relations, which come after those of all relations of the KB."""
    return r + relations
