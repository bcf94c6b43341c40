"""How a model does on dev while it trains: time-aware filtered ranks at the begin of each fact."""

import numpy as np
import torch

from timeplex.evaluation.metrics import link_metrics
from timeplex.evaluation.queries import Answers, PlacedFacts, Scorer
from timeplex.evaluation.ranking import rank
from timeplex.kb.facts import TemporalKB
from timeplex.models.base import Model
from timeplex.training.setup import Setup


def dev_metrics(setup: Setup, model: Model, device: torch.device) -> dict[str, float]:
    """MRR and HITS@k on valid, mean of both directions, by the protocol of the published code.

    Per-instant filter over all splits, ties against the gold, scores at the begin instant.
    """
    training = model.training
    model.train(False)
    queries = PlacedFacts.of(setup.kb.valid, setup.timeline)
    metrics = link_metrics(
        _ranks(
            Answers(model, setup.recipe.inverse),
            queries,
            PlacedFacts.of(setup.kb.facts, setup.timeline),
            setup.kb,
            device,
        )
    )
    model.train(training)
    return metrics


def _ranks(
    scorer: Scorer, queries: PlacedFacts, known: PlacedFacts, kb: TemporalKB, device: torch.device
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    ranks = [
        rank(
            scorer,
            queries,
            known,
            direction,
            entities=len(kb.entities),
            ties="pessimistic",
            span_score="begin",
            device=device,
        ).ranks["per-instant"]
        for direction in ("subject", "object")
    ]
    return np.concatenate(ranks)
