"""What a training step minimises: the losses of both sides, of time, and the regularisers."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from timeplex.models.base import Model
from timeplex.models.sides import Side, SideModel, TimeLinearModel
from timeplex.training import loss, regularizers
from timeplex.training.batches import Batch
from timeplex.training.recipe import Recipe

ALL_ENTITIES = 50_000
"""Up to so many entities all of them are negatives, if the recipe does not say."""

NEGATIVES = 1_000
"""Drawn negatives above that size."""


def negatives(recipe: Recipe, entities: int, by_instant: bool) -> int:
    """How many entities are drawn as negatives; 0 means all.

    A model whose entities move (`by_instant`) would need a table of all of them for every instant of a batch, which
    takes more than 20 GB on WIKIDATA12k.
    """
    if recipe.negatives is not None:
        return recipe.negatives
    return 0 if entities <= (NEGATIVES if by_instant else ALL_ENTITIES) else NEGATIVES


@dataclass(frozen=True)
class Objective:
    """The loss of a batch. `relations` is the number of relations of the KB, without inverses.

    L = −log Pr(o | s, r, t) − log Pr(s | r, o, t) − w log Pr(t | s, r, o) + regularisers, each a mean over the facts.
    With inverse relations the second term is −log Pr(s | o, r⁻¹, t), and the third is had for both directions, too.
    """

    model: Model
    recipe: Recipe
    relations: int
    precision: torch.dtype

    def __call__(self, batch: Batch, candidates: Tensor | None = None) -> Tensor:
        """The loss; `candidates` are the drawn negatives, None for all entities."""
        with self.model.remembering():
            return self._loss(batch, candidates)

    def _loss(self, batch: Batch, candidates: Tensor | None) -> Tensor:
        recipe, model = self.recipe, self.model
        if recipe.inverse:
            batch = batch.with_inverse(self.relations)
            total = 2 * self._links(batch, "object", candidates)
        elif candidates is None and isinstance(model, SideModel):
            total = self._both_sides(model, batch)
        else:
            total = self._links(batch, "object", candidates) + self._links(batch, "subject", candidates)
        if recipe.time_weight and model.uses_time:
            directions = 2 if recipe.inverse else 1
            total = total + directions * recipe.time_weight * self._times(batch)
        return total + self._penalty(batch)

    def _both_sides(self, model: SideModel, batch: Batch) -> Tensor:
        objects, subjects = model.object_side(batch.s, batch.r, batch.t), model.subject_side(batch.r, batch.o, batch.t)
        if objects.table is subjects.table and objects.norm is None:
            # As one list of queries, so that the gradient of the table is made once.
            both = Side(torch.cat([objects.query, subjects.query]), objects.table)
            return 2 * loss.all_candidates(both, torch.cat([batch.o, batch.s]), self.precision)
        return loss.all_candidates(objects, batch.o, self.precision) + loss.all_candidates(
            subjects, batch.s, self.precision
        )

    def _times(self, batch: Batch) -> Tensor:
        if isinstance(self.model, TimeLinearModel):
            side = self.model.time_side(batch.s, batch.r, batch.o)
            return loss.all_candidates(side, batch.t, self.precision)
        return cross_entropy(self.model.times(batch.s, batch.r, batch.o), batch.t)

    def _links(self, batch: Batch, direction: str, candidates: Tensor | None) -> Tensor:
        """The loss of one side, over all entities or the drawn ones."""
        model, s, r, o, t = self.model, batch.s, batch.r, batch.o, batch.t
        if isinstance(model, SideModel):
            side = model.object_side(s, r, t) if direction == "object" else model.subject_side(r, o, t)
            side, gold = side._replace(constant=None), o if direction == "object" else s  # a constant would cancel
            if candidates is None:
                return loss.all_candidates(side, gold, self.precision)
            return self._drawn(side.of(gold), side._replace(table=side.table[candidates]).of_all())
        if candidates is None and direction == "object":
            return cross_entropy(model.objects_at(s, r, t), o)
        if candidates is None:
            return cross_entropy(model.subjects_at(r, o, t), s)
        fact = model.score_at(s, r, o, t)
        if direction == "object":
            return self._drawn(fact, model.objects_among(s, r, t, candidates))
        return self._drawn(fact, model.subjects_among(r, o, t, candidates))

    def _drawn(self, scores: Tensor, others: Tensor) -> Tensor:
        if self.recipe.loss == "margin":
            return loss.margin(scores, others, self.recipe.margin)
        return loss.drawn_candidates(scores, others)

    def _penalty(self, batch: Batch) -> Tensor:
        recipe = self.recipe
        total = torch.zeros((), device=batch.s.device)
        if recipe.l2 or recipe.n3:
            factors = self.model.factors(batch.s, batch.r, batch.o, batch.t)
            if recipe.l2 and factors:
                total = total + recipe.l2 * regularizers.squared(factors)
            if recipe.n3 and factors:
                total = total + recipe.n3 * regularizers.cubed(factors)
        table = self.model.time_table()
        if recipe.smooth and table is not None:
            total = total + recipe.smooth * regularizers.roughness(table, recipe.smooth_power)
        return total


def draw(generator: np.random.Generator, entities: int, number: int, device: torch.device) -> Tensor:
    """Negatives for a batch: entities drawn uniformly, shared by all its facts."""
    return torch.from_numpy(generator.integers(0, entities, number)).to(device)
