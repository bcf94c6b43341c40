"""Steps: dense for what every batch touches, row by row for large tables of which a batch touches little."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from timeplex.models.base import Model
from timeplex.training.batches import Batch, Candidates
from timeplex.training.recipe import Recipe

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
