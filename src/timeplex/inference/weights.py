"""How much the model and each gadget count when a fact is dated.

    Pr(t | s, r, o) = softmax over t of  Σ_k w_k φ_k(s, r, o, t),     k: the model, and each gadget times its strength

A model that is trained to rank entities is often far too sure of dates, most of all on a small KB, where it has learned
its facts by heart; gadgets count gaps and are not. The weights are those under which dev facts are likeliest:

    maximise  Σ_facts mean_{t ∈ T} log Pr(t | s, r, o) − ½ Σ_k (log w_k)²,

so that w = 1, the plain score, is kept where dev facts say nothing. One weight alone is known as temperature scaling.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from timeplex.evaluation.queries import PlacedFacts, WithGadgets
from timeplex.kb.facts import Facts
from timeplex.training.run import TrainedRun

MODEL = "model"

MOST_FACTS = 1_000
"""So many dev facts are enough for a few weights; the tables of their scores are all in memory."""

STEPS = 100

Weights = Mapping[str, float]


class Weighted:
    """A run as a scorer of instants whose parts have weights; a part without one has weight 1."""

    def __init__(self, run: TrainedRun, weights: Weights) -> None:
        self._scorer = run.scorer
        self.weights = dict(weights)

    @property
    def predicts_times(self) -> bool:
        """Whether scores depend on time."""
        return self._scorer.predicts_times

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """Scores of all instants: (n, instants)."""
        if not self.weights:
            return self._scorer.times(s, r, o)
        parts = self.parts(s, r, o)
        return torch.stack([self.weights.get(name, 1.0) * part for name, part in parts.items()]).sum(0)

    def parts(self, s: Tensor, r: Tensor, o: Tensor) -> dict[str, Tensor]:
        """The scores of all instants by part, without weights: (n, instants) each."""
        if not isinstance(self._scorer, WithGadgets):
            return {MODEL: self._scorer.times(s, r, o)}
        gadgets = {name: each.strength * each.times(s, r, o) for name, each in self._scorer.gadgets.items()}
        return {MODEL: self._scorer.model.times(s, r, o), **gadgets}


def fit_weights(run: TrainedRun, facts: Facts) -> dict[str, float]:
    """The weights under which the facts, at most MOST_FACTS of them, are likeliest."""
    facts = facts[:: max(1, -(-len(facts) // MOST_FACTS))]
    placed = PlacedFacts.of(facts, run.timeline)
    s, r, o, (first, last) = placed.tensors(next(run.model.parameters()).device)
    with torch.no_grad():
        parts = {name: part.double() for name, part in Weighted(run, {}).parts(s, r, o).items()}
    instants = torch.arange(len(run.timeline), device=s.device)
    inside = ((instants >= first[:, None]) & (instants <= last[:, None])).double()
    inside /= inside.sum(1, keepdim=True)
    logs = torch.zeros(len(parts), dtype=torch.double, device=s.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = torch.stack([log.exp() * part for log, part in zip(logs, parts.values(), strict=True)]).sum(0)
        unlikely = -(scores.log_softmax(1) * inside).sum() + (logs**2).sum() / 2
        unlikely.backward()  # type: ignore[no-untyped-call]
        return unlikely

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return dict(zip(parts, np.round(logs.detach().exp().cpu().numpy(), 4).tolist(), strict=True))
