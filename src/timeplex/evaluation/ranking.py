"""Ranks of the gold answers among all entities, under several filters at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.evaluation.filters import Direction, Filter, Forgiven, forgiven
from timeplex.evaluation.queries import PlacedFacts, Scorer

Ties = Literal["realistic", "pessimistic", "optimistic"]
TIE_SHARE = {"realistic": 0.5, "pessimistic": 1.0, "optimistic": 0.0}
"""How much of an entity that ties with the gold stands above it."""

CHUNK_BYTES = 256_000_000
"""The most memory that one block of scores may take."""

Ranks = NDArray[np.float64]


@dataclass(frozen=True)
class RankedQueries:
    """Ranks of all queries of one direction, by filter; each of shape (n,)."""

    direction: Direction
    ranks: dict[str, Ranks]


@torch.no_grad()
def rank(
    scorer: Scorer,
    queries: PlacedFacts,
    known: PlacedFacts,
    direction: Direction,
    *,
    entities: int,
    filters: Sequence[Filter] = ("per-instant",),
    ties: Ties = "realistic",
    span_score: Literal["sum", "begin"] = "sum",
    device: torch.device | None = None,
) -> RankedQueries:
    """Rank the gold of every query among all entities.

    rank = 1 + #{e above the gold} − Σ shares of T at which a known answer above it is known, where an entity that ties
    counts by the tie rule. The gold's score is taken from the same row as the candidates'.
    """
    device = device or torch.device("cpu")
    allowances = {name: forgiven(queries, known, direction, name) for name in filters}
    ranks: dict[str, Ranks] = {name: np.empty(len(queries)) for name in filters}
    size = max(1, CHUNK_BYTES // (4 * entities))
    for start in range(0, len(queries), size):
        stop = min(start + size, len(queries))
        s, r, o, (first, last) = queries.rows(start, stop).tensors(device)
        span = (first, first if span_score == "begin" else last)
        rows = scorer.objects(s, r, span) if direction == "object" else scorer.subjects(r, o, span)
        lengths = last - first + 1
        gold = (o if direction == "object" else s)[:, None]
        gold_score = rows.gather(1, gold)
        tied = (rows == gold_score).sum(1) - 1  # all but the gold itself
        above = (rows > gold_score).sum(1) + TIE_SHARE[ties] * tied
        for name, allowance in allowances.items():
            known_above = _forgiven_above(rows, gold_score, allowance.rows(start, stop), ties)
            ranks[name][start:stop] = (1 + (above * lengths - known_above) / lengths).cpu().numpy()
    return RankedQueries(direction, ranks)


def _above(scores: Tensor, gold: Tensor, ties: Ties) -> Tensor:
    """How much each score stands above the gold's: 1, the share of a tie, or 0."""
    return (scores > gold).double() + TIE_SHARE[ties] * (scores == gold).double()


def _forgiven_above(rows: Tensor, gold: Tensor, allowance: Forgiven, ties: Ties) -> Tensor:
    """Σ instants over the known answers above the gold, by query."""
    query = torch.from_numpy(allowance.query).to(rows.device)
    answer = torch.from_numpy(allowance.answer).to(rows.device)
    instants = torch.from_numpy(allowance.instants).to(rows.device)
    amount = _above(rows[query, answer], gold[query, 0], ties) * instants
    return torch.zeros(len(rows), dtype=torch.float64, device=rows.device).index_add(0, query, amount)
