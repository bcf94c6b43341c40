"""TimePlex, the base model (Jain et al. 2020): a sum of three-way products of subject, relation, object and time."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from timeplex.models import base
from timeplex.models.algebra import conjugate, dot, multiply
from timeplex.models.base import Space, register, tuned
from timeplex.models.sides import Side, TimeLinearModel

WEIGHTS = tuned(0.0, 2.0, 5.0, 7.0, 10.0)  # the paper's grid


class Options(base.Options):
    """Settings of the TimePlex base model."""

    alpha: float = Field(5.0, ge=0, description="Weight of the subject-time term.", json_schema_extra=WEIGHTS)
    beta: float = Field(5.0, ge=0, description="Weight of the object-time term.", json_schema_extra=WEIGHTS)
    gamma: float = Field(5.0, ge=0, description="Weight of the subject-object-time term.", json_schema_extra=WEIGHTS)
    form: Literal["paper", "published-code"] = Field(
        "published-code", description="Which conjugations the time terms have; they differ in the gamma term."
    )
    unit_time: bool = Field(True, description="Keep real and imaginary part of each time vector at length 1.")


@register("timeplex-base")
class TimePlex(TimeLinearModel):
    """φ(s, r, o, t) = Re⟨s, rˢᵒ, ō⟩ + α Re⟨s, rˢᵗ, t̄⟩ + β Re⟨o, rᵒᵗ, t̄⟩ + γ Re⟨s, o, t̄⟩    (form `paper`)

    The form `published-code` has β Re⟨t, rᵒᵗ, ō⟩ + γ Re⟨s, t, ō⟩. Its β term is the paper's with rᵒᵗ conjugated, so it
    can say the same; its γ term tells subject from object, the paper's does not.
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
        self.after_step()

    def object_side_with(self, s: Tensor, r: Tensor, time: Tensor) -> Side:
        """All terms with the object fold into one query vector; the α term is the same for all objects."""
        subject, options = self.rows(self.entity, s), self.options
        query = multiply(subject, self.rows(self.relation_so, r))
        if options.form == "paper":
            query = query + options.beta * multiply(conjugate(self.rows(self.relation_ot, r)), time)
            query = query + options.gamma * multiply(conjugate(subject), time)
        else:
            query = query + multiply(time, options.beta * self.rows(self.relation_ot, r) + options.gamma * subject)
        constant = options.alpha * dot(multiply(subject, self.rows(self.relation_st, r)), time)
        return Side(query, self.entity, constant)

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> Side:
        """All terms with the subject fold into one query vector; the β term is the same for all subjects."""
        object_, options = self.rows(self.entity, o), self.options
        query = options.alpha * multiply(conjugate(self.rows(self.relation_st, r)), time)
        if options.form == "paper":
            query = query + multiply(conjugate(self.rows(self.relation_so, r)), object_)
            query = query + options.gamma * multiply(conjugate(object_), time)
            constant = options.beta * dot(multiply(object_, self.rows(self.relation_ot, r)), time)
        else:
            query = query + multiply(conjugate(self.rows(self.relation_so, r) + options.gamma * time), object_)
            constant = options.beta * dot(multiply(time, self.rows(self.relation_ot, r)), object_)
        return Side(query, self.entity, constant)

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> Side:
        """All terms with time fold into one query vector; the first term is the same at all times."""
        subject, object_, options = self.rows(self.entity, s), self.rows(self.entity, o), self.options
        query = options.alpha * multiply(subject, self.rows(self.relation_st, r))
        if options.form == "paper":
            query = query + multiply(object_, options.beta * self.rows(self.relation_ot, r) + options.gamma * subject)
        else:
            turned = conjugate(options.beta * self.rows(self.relation_ot, r) + options.gamma * subject)
            query = query + multiply(turned, object_)
        return Side(query, self.time, dot(multiply(subject, self.rows(self.relation_so, r)), object_))

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
