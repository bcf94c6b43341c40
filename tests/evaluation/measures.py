"""What tests measure time prediction by: one decoder, one rule of thresholds, the means of all metrics."""

from collections.abc import Sequence

import numpy as np
import torch

from timeplex.evaluation.metrics import time_scores
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.time_prediction import Decoder, Rule, Spans, Thresholds, TimeScorer, dev_values, predict_times
from timeplex.kb.facts import Facts
from timeplex.kb.spans import Span
from timeplex.kb.timeline import Timeline


def fit_thresholds(
    scorer: TimeScorer,
    facts: Facts,
    timeline: Timeline,
    rule: Rule,
    *,
    relations: int,
    device: torch.device | None = None,
) -> Thresholds:
    """The θ of every relation by those dev facts that have both ends."""
    return dev_values(scorer, facts, timeline, [rule], device=device).thresholds(rule, relations)


def time_metrics(gold: Span, predicted: Span, at: Sequence[int] = (1, 5, 10)) -> dict[str, float]:
    """Means of `time_scores` over the queries; all 0 if there are none."""
    scores = time_scores(gold, predicted, at)
    return {name: float(np.mean(values)) if len(values) else 0.0 for name, values in scores.items()}


def predicted(scorer: TimeScorer, queries: PlacedFacts, timeline: Timeline, decoder: Decoder) -> Spans:
    """The spans that one decoder predicts, best first."""
    return predict_times(scorer, queries, timeline, {"it": decoder})["it"]
