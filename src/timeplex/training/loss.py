"""The losses: cross-entropy over all candidates, over drawn negatives, and a margin.

Over all entities the cost is three matrix products a side (scores, and the gradients of both factors) and one pass
over the table of scores. `all_candidates` does them in one autograd function that never keeps more than a block of
scores.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, relu

from timeplex.models.sides import Side

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


def all_candidates(side: Side, gold: Tensor, precision: torch.dtype, log_weight: Tensor | None = None) -> Tensor:
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
