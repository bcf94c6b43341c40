"""HyTE (Dasgupta et al. 2018): each time bin is a hyperplane on which subject, relation and object are projected."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from timeplex.models import base
from timeplex.models.base import Model, Space, by_group, register
from timeplex.models.query_vector import QueryVector, dot, minus_distance
from timeplex.models.static import ScorerName, scorer


class Options(base.Options):
    """Settings of HyTE."""

    scorer: ScorerName = Field("transe", description="What the projected vectors are used in.")
    norm: Literal[1, 2] = Field(1, description="The norm of TransE's distance: 1 or 2.")
    bin_size: int = Field(
        300, ge=1, le=10**9, description="A time bin is closed when this many begins and ends lie in it."
    )


@register("hyte")
class HyTE(Model):
    """φ(s, r, o, t) = scorer(P s, P r, P o), where P x = x − (x·w) w and w is the unit normal of the bin of t.

    With a dot-product scorer ⟨q, P o⟩ = ⟨P q, o⟩, so that projecting the query is enough.
    """

    options_type = Options
    bin_of: Tensor

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.scorer = scorer(options.scorer, options.norm)
        width = self.scorer.parts * options.dimension
        self.register_buffer("bin_of", bins(space.mentions, options.bin_size), persistent=False)
        self.entity = self.table(space.entities, width)
        self.relation = self.table(space.relations, width)
        self.normal = self.table(int(self.bin_of[-1]) + 1, width)
        self.after_step()

    def project(self, x: Tensor, t: Tensor) -> Tensor:
        """P x at the bins of the instants t."""
        return project(x, self.normal[self.bin_of[t]])

    def object_query(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """The query of (s, r, ?, t), projected."""
        query = self.scorer.object_query(
            self.project(self.rows(self.entity, s), t), self.project(self.rows(self.relation, r), t)
        )
        return self.project(query, t)

    def subject_query(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        """The query of (?, r, o, t), projected."""
        query = self.scorer.subject_query(
            self.project(self.rows(self.relation, r), t), self.project(self.rows(self.entity, o), t)
        )
        return self.project(query, t)

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        query, candidate = self.object_query(s, r, t), self.project(self.rows(self.entity, o), t)
        if self.scorer.norm is None:
            return dot(query, candidate)
        return minus_distance(query, candidate, self.scorer.norm)

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self._of(self.entity, self.object_query(s, r, t), t)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return self._of(self.entity, self.subject_query(r, o, t), t)

    def objects_among(self, s: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return self._of(self.entity[candidates], self.object_query(s, r, t), t)

    def subjects_among(self, r: Tensor, o: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return self._of(self.entity[candidates], self.subject_query(r, o, t), t)

    def _of(self, table: Tensor, query: Tensor, t: Tensor) -> Tensor:
        """The scores of all rows of the table; for distances they are projected once a bin."""
        if self.scorer.norm is None:
            return QueryVector(query, table).of_all()

        def score(bin_: Tensor, rows: Tensor) -> Tensor:
            return QueryVector(rows, project(table, self.normal[bin_]), norm=self.scorer.norm).of_all()

        return by_group(query, self.bin_of[t], score)

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """φ(s, r, o, ·): one score a bin, the same for all its instants."""
        first = torch.searchsorted(self.bin_of, torch.arange(len(self.normal), device=s.device))
        return self.score_at(s[:, None], r[:, None], o[:, None], first[None, :])[:, self.bin_of]

    def instant_groups(self) -> Tensor:
        return self.bin_of

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [self.rows(self.entity, s), self.rows(self.relation, r), self.rows(self.entity, o)]

    def after_step(self) -> None:
        """Keep the normals at length 1."""
        with torch.no_grad():
            self.normal.copy_(normalize(self.normal, dim=-1))


def project(x: Tensor, normal: Tensor) -> Tensor:
    """x − (x·w) w for unit normals w; broadcasts."""
    return x - dot(x, normal)[..., None] * normal


def bins(mentions: Tensor, size: int) -> Tensor:
    """The bin of each instant: a new one begins once at least `size` mentions lie in the one before."""
    numbers, filled, number = [], 0, 0
    for count in mentions.tolist():
        numbers.append(number)
        filled += count
        if filled >= size:
            filled, number = 0, number + 1
    return torch.tensor(numbers, device=mentions.device)
