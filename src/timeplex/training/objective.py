"""What a training step minimises, the losses of both sides, of time, and the regularisers; and the steps themselves."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm
from torch.nn.functional import cross_entropy, embedding, relu

from timeplex.models.base import Model
from timeplex.models.query_vector import QueryVector, QueryVectorModel, TimeLinearModel
from timeplex.models.scorer import Direction
from timeplex.training.batches import Batch, Candidates
from timeplex.training.recipe import Recipe

BLOCK_ROWS = 512
"""Rows of scores that are held at a time."""


class _AllCandidates(torch.autograd.Function):
    """Mean over rows of −log softmax(weighed(query @ table.T))[gold], with its gradients made on the way."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, table: Tensor, gold: Tensor, log_weight: Tensor | None, precision: torch.dtype
    ) -> Tensor:
        q, t = query.detach().to(precision), table.detach().to(precision)
        rows = len(q)
        query_gradient = torch.empty_like(q)
        table_gradient = torch.empty_like(t) if rows else torch.zeros_like(t)
        loss = query.new_zeros(())
        buffer = q.new_empty(min(BLOCK_ROWS, rows), len(t))
        for start in range(0, rows, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, rows))
            scores = weighed(torch.mm(q[block], t.T, out=buffer[: len(q[block])]), gold[block], log_weight)
            torch.softmax(scores, dim=1, out=scores)
            mine = (torch.arange(len(scores), device=scores.device), gold[block])
            chance = scores[mine]
            loss -= chance.float().clamp_min(torch.finfo(torch.float32).tiny).log().sum()
            scores[mine] = chance - 1  # the gradient of the scores, up to 1/rows
            torch.mm(scores, t, out=query_gradient[block])
            table_gradient.addmm_(scores.T, q[block], beta=0 if start == 0 else 1)
        ctx.save_for_backward(query_gradient, table_gradient)
        ctx.rows, ctx.dtype = rows, query.dtype
        return loss / rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query_gradient, table_gradient = ctx.saved_tensors
        scale = gradients[0] / ctx.rows
        return query_gradient.to(ctx.dtype).mul_(scale), table_gradient.to(ctx.dtype).mul_(scale), None, None, None


def all_candidates(side: QueryVector, gold: Tensor, precision: torch.dtype, log_weight: Tensor | None = None) -> Tensor:
    """−log Pr(gold | all candidates of the side), mean over the rows. What is constant in a row cancels."""
    if side.norm is None:
        loss: Tensor = _AllCandidates.apply(side.query, side.table, gold, log_weight, precision)  # type: ignore[no-untyped-call]
        return loss
    return cross_entropy(weighed(side.of_all(), gold, log_weight), gold)


def weighed(scores: Tensor, gold: Tensor, log_weight: Tensor | None) -> Tensor:
    """The scores, (n, k), changed so that a candidate counts as many as it stands for, and each gold as itself.

    `log_weight`, (k,), are the logarithms of these numbers; −inf is a candidate that is there as a gold only.
    """
    if log_weight is None:
        return scores
    mine = (torch.arange(len(scores), device=scores.device), gold)
    own = scores[mine]
    scores += log_weight
    scores[mine] = own
    return scores


def drawn_candidates(scores: Tensor, negatives: Tensor) -> Tensor:
    """−log Pr(gold | gold and the negatives), mean over the rows: (n,) and (n, k)."""
    together = torch.cat([scores[:, None], negatives], dim=1)
    return cross_entropy(together, torch.zeros(len(scores), dtype=torch.long, device=scores.device))


def margin(scores: Tensor, negatives: Tensor, width: float) -> Tensor:
    """max(0, width − score + negative), summed over the negatives and averaged over the facts: (n,) and (n, k)."""
    return relu(width - scores[:, None] + negatives).sum(1).mean()


def squared(factors: list[Tensor]) -> Tensor:
    """Mean over the facts of Σ x² over all embeddings of a fact: each (n, width)."""
    return torch.stack([vector_norm(factor) for factor in factors]).square().sum() / len(factors[0])


def cubed(factors: list[Tensor]) -> Tensor:
    """Mean over the facts of Σ |x|³, with |x| the modulus of (re, im) as the tables store it (N3)."""
    total = factors[0].new_zeros(())
    for factor in factors:
        re, im = factor.chunk(2, dim=-1)
        # A little is added because the root has no gradient at 0.
        total = total + (re.square() + im.square() + 1e-12).sqrt().pow(3).sum()
    return total / len(factors[0])


def roughness(time: Tensor, power: int) -> Tensor:
    """Λ_p: mean over consecutive instants of Σ |t' − t|ᵖ with complex moduli (Lacroix et al. 2020)."""
    if len(time) < 2:
        return time.new_zeros(())
    re, im = (time[1:] - time[:-1]).chunk(2, dim=-1)
    return (re.square() + im.square() + 1e-12).sqrt().pow(power).sum() / (len(time) - 1)


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
        elif candidates is None and isinstance(model, QueryVectorModel):
            total = self._both_sides(model, batch)
        else:
            total = self._links(batch, "object", candidates) + self._links(batch, "subject", candidates)
        if recipe.time_weight and model.uses_time:
            directions = 2 if recipe.inverse else 1
            total = total + directions * recipe.time_weight * self._times(batch)
        return total + self._penalty(batch)

    def _both_sides(self, model: QueryVectorModel, batch: Batch) -> Tensor:
        objects, subjects = model.object_side(batch.s, batch.r, batch.t), model.subject_side(batch.r, batch.o, batch.t)
        if objects.table is subjects.table and objects.norm is None:
            # As one list of queries, so that the gradient of the table is made once.
            both = QueryVector(torch.cat([objects.query, subjects.query]), objects.table)
            return 2 * all_candidates(both, torch.cat([batch.o, batch.s]), self.precision)
        return all_candidates(objects, batch.o, self.precision) + all_candidates(subjects, batch.s, self.precision)

    def _times(self, batch: Batch) -> Tensor:
        if isinstance(self.model, TimeLinearModel):
            side = self.model.time_side(batch.s, batch.r, batch.o)
            return all_candidates(side, batch.t, self.precision)
        return cross_entropy(self.model.times(batch.s, batch.r, batch.o), batch.t)

    def _links(self, batch: Batch, direction: Direction, candidates: Candidates | None) -> Tensor:
        """The loss of one side, over all entities, those that are weighed, or the drawn ones."""
        gold = batch.o if direction == "object" else batch.s
        if candidates is None:
            return self._among_all(batch, direction, gold)
        if candidates.log_weight is not None:
            return self._among_weighed(batch, direction, *candidates.with_golds(gold))
        model, s, r, o, t = self.model, batch.s, batch.r, batch.o, batch.t
        if isinstance(model, QueryVectorModel):
            side = self._side(model, batch, direction)
            return self._drawn(side.of(gold), side._replace(table=side.table[candidates.entities]).of_all())
        return self._drawn(model.score_at(s, r, o, t), self._scores(batch, direction, candidates.entities))

    def _among_all(self, batch: Batch, direction: Direction, gold: Tensor) -> Tensor:
        model = self.model
        if isinstance(model, QueryVectorModel):
            return all_candidates(self._side(model, batch, direction), gold, self.precision)
        if direction == "object":
            return cross_entropy(model.objects_at(batch.s, batch.r, batch.t), gold)
        return cross_entropy(model.subjects_at(batch.r, batch.o, batch.t), gold)

    def _among_weighed(self, batch: Batch, direction: Direction, candidates: Candidates, gold: Tensor) -> Tensor:
        """`gold` says where the golds are among the candidates."""
        model, entities, log_weight = self.model, candidates.entities, candidates.log_weight
        if isinstance(model, QueryVectorModel):
            side = self._side(model, batch, direction)
            side = side._replace(table=embedding(entities, side.table))
            return all_candidates(side, gold, self.precision, log_weight)
        scores = self._scores(batch, direction, entities)
        return cross_entropy(weighed(scores, gold, log_weight), gold)

    def _scores(self, batch: Batch, direction: Direction, entities: Tensor) -> Tensor:
        """The scores of these entities: (n, entities)."""
        if direction == "object":
            return self.model.objects_among(batch.s, batch.r, batch.t, entities)
        return self.model.subjects_among(batch.r, batch.o, batch.t, entities)

    @staticmethod
    def _side(model: QueryVectorModel, batch: Batch, direction: Direction) -> QueryVector:
        """The side that is asked about, without its constant, which would cancel."""
        if direction == "object":
            return model.object_side(batch.s, batch.r, batch.t)._replace(constant=None)
        return model.subject_side(batch.r, batch.o, batch.t)._replace(constant=None)

    def _drawn(self, scores: Tensor, others: Tensor) -> Tensor:
        if self.recipe.loss == "margin":
            return margin(scores, others, self.recipe.margin)
        return drawn_candidates(scores, others)

    def _penalty(self, batch: Batch) -> Tensor:
        recipe = self.recipe
        total = torch.zeros((), device=batch.s.device)
        if recipe.l2 or recipe.n3:
            factors = self.model.factors(batch.s, batch.r, batch.o, batch.t)
            if recipe.l2 and factors:
                total = total + recipe.l2 * squared(factors)
            if recipe.n3 and factors:
                total = total + recipe.n3 * cubed(factors)
        table = self.model.time_table()
        if recipe.smooth and table is not None:
            total = total + recipe.smooth * roughness(table, recipe.smooth_power)
        return total


LARGEST = 1e6
"""No number that is learned may be larger. A score multiplies four of them at most and sums thousands of such products:
with larger ones it would leave the range of float32."""


class Diverged(Exception):  # noqa: N818 - the trainer hears it, and keeps what was good
    """The numbers of a training have grown beyond all bounds; says which."""


def finite_loss(loss: Tensor) -> float:
    """The loss of a batch as a number, if it is one."""
    value = float(loss)
    if not math.isfinite(value):
        raise Diverged("the loss is not finite")
    return value


def check_tables(module: nn.Module, largest: float = LARGEST) -> None:
    """See that all that is learned is finite, and not far larger than anything that one could learn."""
    for name, table in module.named_parameters():
        if not bool((table.detach().abs() <= largest).all()):  # so that nan is refused, too
            raise Diverged(f"numbers of the table {name!r} are above {largest:,.0f} or not finite")


EPSILON = 1e-10


def dense_optimizer(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser of the recipe over whole tables."""
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)
    return torch.optim.Adagrad(parameters, lr=recipe.learning_rate, eps=EPSILON, fused=True)


class RowAdagrad:
    """Adagrad for the rows of entity tables that a batch uses: Σ g² and the step are taken for these rows only.

    With drawn negatives a batch touches a few thousand rows, so its cost does not grow with the number of entities.
    """

    def __init__(self, model: Model, recipe: Recipe) -> None:
        self.model, self.learning_rate = model, recipe.learning_rate
        self.sums = {name: torch.zeros_like(getattr(model, name)) for name in model.entity_tables}

    def step(self, batch: Batch, candidates: Candidates, loss_of: Callable[[Batch, Candidates], Tensor]) -> Tensor:
        """Compute the loss on the rows that the batch uses, and step on them; gradients of other tables are left."""
        used, where = torch.unique(torch.cat([batch.s, batch.o, candidates.entities]), return_inverse=True)
        s, o, drawn = where.split([len(batch), len(batch), len(candidates.entities)])
        with self._rows(used) as tables:
            loss = loss_of(Batch(s, batch.r, o, batch.t), candidates._replace(entities=drawn))
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = {name: table.grad for name, table in tables.items()}
        with torch.no_grad():
            for name, gradient in gradients.items():
                if gradient is None:
                    continue
                sums = self.sums[name][used] + gradient.square()
                self.sums[name][used] = sums
                getattr(self.model, name)[used] -= self.learning_rate * gradient / (sums.sqrt() + EPSILON)
        return loss.detach()

    @contextmanager
    def _rows(self, used: Tensor) -> Iterator[dict[str, nn.Parameter]]:
        """The model with its entity tables cut down to the used rows."""
        whole = {name: getattr(self.model, name) for name in self.model.entity_tables}
        cut = {name: nn.Parameter(table.detach()[used]) for name, table in whole.items()}
        try:
            for name, table in cut.items():
                setattr(self.model, name, table)
            yield cut
        finally:
            for name, table in whole.items():
                setattr(self.model, name, table)
