"""TimePlex, the base model (Jain et al. 2020): a sum of three-way products of subject, relation, object and time."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from timeplex.models import base
from timeplex.models.base import Space, register, tuned
from timeplex.models.query_vector import QueryVector, TimeLinearModel, broadcast, dot, multiply, multiply_conjugate

WEIGHTS = tuned(0.0, 2.0, 5.0, 7.0, 10.0)  # the paper's grid


class Options(base.Options):
    """Settings of the TimePlex base model."""

    alpha: float = Field(5.0, ge=0, le=1e6, description="Weight of the subject-time term.", json_schema_extra=WEIGHTS)
    beta: float = Field(5.0, ge=0, le=1e6, description="Weight of the object-time term.", json_schema_extra=WEIGHTS)
    gamma: float = Field(
        5.0, ge=0, le=1e6, description="Weight of the subject-object-time term.", json_schema_extra=WEIGHTS
    )
    form: Literal["paper", "published-code"] = Field(
        "published-code", description="Which conjugations the time terms have; they differ in the gamma term."
    )
    unit_time: bool = Field(True, description="Keep real and imaginary part of each time vector at length 1.")


@register("timeplex-base")
class TimePlex(TimeLinearModel):
    """φ(s, r, o, t) = Re⟨s, rˢᵒ, ō⟩ + α Re⟨s, rˢᵗ, t̄⟩ + β Re⟨o, rᵒᵗ, t̄⟩ + γ Re⟨s, o, t̄⟩    (form `paper`)

    The form `published-code` has β Re⟨t, rᵒᵗ, ō⟩ + γ Re⟨s, t, ō⟩. Its β term is the paper's with rᵒᵗ conjugated, so it
    can say the same; its γ term tells subject from object, the paper's does not. With x = β rᵒᵗ + γ s the last two
    terms are Re⟨x, o, t̄⟩ in the paper, Re⟨x, t, ō⟩ in the published code.
    """

    options_type = Options

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        width = 2 * options.dimension
        self.entity = self.table(space.entities, width)
        self.relation_so = self.table(space.relations, width)
        self.relation_st = self.table(space.relations, width)
        self.relation_ot = self.table(space.relations, width)
        self.time = self.table(space.instants, width)
        self._is_paper = options.form == "paper"
        # Re⟨x, o, t̄⟩ is the dot product of o and x̄ ∘ t, and that of t and x ∘ o; Re⟨x, t, ō⟩ the other way round.
        self._object_query, self._time_query = multiply, multiply_conjugate
        if self._is_paper:
            self._object_query, self._time_query = multiply_conjugate, multiply
        self.after_step()

    def object_side_with(self, s: Tensor, r: Tensor, time: Tensor) -> QueryVector:
        """All terms with the object fold into one query vector; the α term is the same for all objects."""
        subject = self.rows(self.entity, s)
        query = multiply(subject, self.rows(self.relation_so, r)) + self._object_query(self._x(s, r), time)
        return QueryVector(
            query, self.entity, lambda: self.options.alpha * dot(multiply(subject, self.relation_st[r]), time)
        )

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> QueryVector:
        """All terms with the subject fold into one query vector; the β term is the same for all subjects."""
        target, options = self.rows(self.entity, o), self.options
        so, st = self.rows(self.relation_so, r), options.alpha * self.rows(self.relation_st, r)
        of_o = so if self._is_paper else torch.add(so, time, alpha=options.gamma)
        query = multiply_conjugate(of_o, target)
        of_t = torch.add(st, target, alpha=options.gamma) if self._is_paper else st
        query = query + multiply_conjugate(of_t, time)
        first, last = self._ordered(target, time)
        return QueryVector(query, self.entity, lambda: options.beta * dot(multiply(first, self.relation_ot[r]), last))

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """All terms with time fold into one query vector; the first term is the same at all times."""
        subject, target = self.rows(self.entity, s), self.rows(self.entity, o)
        query = self._time_query(self._x(s, r), target)
        query = torch.add(query, multiply(subject, self.rows(self.relation_st, r)), alpha=self.options.alpha)
        return QueryVector(query, self.time, lambda: dot(multiply(subject, self.relation_so[r]), target))

    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> dict[str, Tensor]:
        """The four products of the formula, each with its weight."""
        subject, target, time, options = self.entity[s], self.entity[o], self.time[t], self.options
        first, last = self._ordered(target, time)
        parts = {
            "subject, relation, object": dot(multiply(subject, self.relation_so[r]), target),
            "subject, relation, time": options.alpha * dot(multiply(subject, self.relation_st[r]), time),
            "object, relation, time": options.beta * dot(multiply(first, self.relation_ot[r]), last),
            "subject, object, time": options.gamma * dot(multiply(subject, first), last),
        }
        return dict(zip(parts, broadcast(*parts.values()), strict=True))

    def _ordered(self, o: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Object and time as they stand beside x, the conjugated one last."""
        return (o, t) if self._is_paper else (t, o)

    def _x(self, s: Tensor, r: Tensor) -> Tensor:
        """β rᵒᵗ + γ s: what object and time are multiplied with."""
        return torch.add(
            self.options.beta * self.rows(self.relation_ot, r), self.rows(self.entity, s), alpha=self.options.gamma
        )

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """The six embeddings of a fact."""
        relations = [self.rows(self.relation_so, r), self.rows(self.relation_st, r), self.rows(self.relation_ot, r)]
        return [self.rows(self.entity, s), self.rows(self.entity, o), *relations, self.rows(self.time, t)]

    def after_step(self) -> None:
        """Scale the real and the imaginary part of every time vector to length 1, if asked for."""
        if self.options.unit_time:
            with torch.no_grad():
                re, im = self.time.chunk(2, dim=-1)
                self.time.copy_(torch.cat([normalize(re, dim=-1), normalize(im, dim=-1)], dim=-1))
