"""What a training step minimises: the losses of both sides, of time, and the regularisers."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from timeplex.evaluation.queries import Direction
from timeplex.models.base import Model
from timeplex.models.sides import Side, SideModel, TimeLinearModel
from timeplex.training import loss, regularizers
from timeplex.training.batches import Batch
from timeplex.training.negatives import Candidates
from timeplex.training.recipe import Recipe


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

    def __call__(self, batch: Batch, candidates: Candidates | None = None) -> Tensor:
        """The loss; `candidates` are the drawn negatives, None for all entities."""
        with self.model.remembering():
            return self._loss(batch, candidates)

    def _loss(self, batch: Batch, candidates: Candidates | None) -> Tensor:
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

    def _links(self, batch: Batch, direction: Direction, candidates: Candidates | None) -> Tensor:
        """The loss of one side, over all entities, those that are weighed, or the drawn ones."""
        gold = batch.o if direction == "object" else batch.s
        if candidates is None:
            return self._among_all(batch, direction, gold)
        if candidates.log_weight is not None:
            return self._among_weighed(batch, direction, *candidates.with_golds(gold))
        model, s, r, o, t = self.model, batch.s, batch.r, batch.o, batch.t
        if isinstance(model, SideModel):
            side = self._side(model, batch, direction)
            return self._drawn(side.of(gold), side._replace(table=side.table[candidates.entities]).of_all())
        return self._drawn(model.score_at(s, r, o, t), self._scores(batch, direction, candidates.entities))

    def _among_all(self, batch: Batch, direction: Direction, gold: Tensor) -> Tensor:
        model = self.model
        if isinstance(model, SideModel):
            return loss.all_candidates(self._side(model, batch, direction), gold, self.precision)
        if direction == "object":
            return cross_entropy(model.objects_at(batch.s, batch.r, batch.t), gold)
        return cross_entropy(model.subjects_at(batch.r, batch.o, batch.t), gold)

    def _among_weighed(self, batch: Batch, direction: Direction, candidates: Candidates, gold: Tensor) -> Tensor:
        """`gold` says where the golds are among the candidates."""
        model, entities, log_weight = self.model, candidates.entities, candidates.log_weight
        if isinstance(model, SideModel):
            side = self._side(model, batch, direction)
            side = side._replace(table=embedding(entities, side.table))
            return loss.all_candidates(side, gold, self.precision, log_weight)
        scores = self._scores(batch, direction, entities)
        return cross_entropy(loss.weighed(scores, gold, log_weight), gold)

    def _scores(self, batch: Batch, direction: Direction, entities: Tensor) -> Tensor:
        """The scores of these entities: (n, entities)."""
        if direction == "object":
            return self.model.objects_among(batch.s, batch.r, batch.t, entities)
        return self.model.subjects_among(batch.r, batch.o, batch.t, entities)

    @staticmethod
    def _side(model: SideModel, batch: Batch, direction: Direction) -> Side:
        """The side that is asked about, without its constant, which would cancel."""
        if direction == "object":
            return model.object_side(batch.s, batch.r, batch.t)._replace(constant=None)
        return model.subject_side(batch.r, batch.o, batch.t)._replace(constant=None)

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
