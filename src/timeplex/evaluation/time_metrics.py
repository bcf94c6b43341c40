"""How close a predicted span is to the gold span: TAC, IOU, gIOU, aeIOU and gaeIOU, all from 0 to 1.

Spans are begin and end in calendar instants, both inclusive: [1967, 1969] has three years, and two spans that follow
each other at once have no gap. With G the gold span, P the predicted one and hull(G, P) the smallest span with both:

    TAC      ½ [ 1 / (1 + |begin of G − begin of P|)  +  1 / (1 + |end of G − end of P|) ]
    IOU      |G ∩ P| / |G ∪ P|
    gIOU     ½ [ 1 + IOU − gap / |hull| ],   gap = instants strictly between G and P
    aeIOU    max(1, |G ∩ P|) / |hull|
    gaeIOU   aeIOU, but if G and P are disjoint 1 / (1 + steps) / |hull|,   steps = gap + 1, from one to the other

The gIOU of the literature runs from −1 to 1; it is scaled here, as in the published results. The last one is from
Time2Box (Cai et al., 2021), the others are those of the TimePlex paper.

A span whose end lies before its begin has its ends swapped, so that no value can leave [0, 1]. Golds that come through
a reader are in order already: it reports such a fact and takes it as an event at its begin.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from timeplex.kb import spans
from timeplex.kb.spans import Floats, Ints, Span

Metric = Callable[[Span, Span], Floats]
"""Value of a gold span and a predicted span, which broadcast."""


def _ordered(span: Span) -> tuple[Ints, Ints]:
    begin, end = np.asarray(span[0], np.int64), np.asarray(span[1], np.int64)
    return np.minimum(begin, end), np.maximum(begin, end)


def _shared_and_hull(gold: Span, predicted: Span) -> tuple[Ints, Ints]:
    """(instants in both, instants in the hull); the first is −gap where the spans are disjoint."""
    gold, predicted = _ordered(gold), _ordered(predicted)
    first, last = spans.intersection(gold, predicted)
    begin, end = spans.hull(gold, predicted)
    return last - first + 1, end - begin + 1


def tac(gold: Span, predicted: Span) -> Floats:
    """Mean of the closeness of both begins and of both ends."""
    gold, predicted = _ordered(gold), _ordered(predicted)
    begins, ends = (1 / (1 + np.abs(g - p)) for g, p in zip(gold, predicted, strict=True))
    return np.asarray((begins + ends) / 2)


def iou(gold: Span, predicted: Span) -> Floats:
    """Intersection over union."""
    shared, hull = _shared_and_hull(gold, predicted)
    return np.maximum(shared, 0) / hull  # the hull is the union wherever the spans share an instant


def giou(gold: Span, predicted: Span) -> Floats:
    """Generalised IOU, scaled from [−1, 1] to [0, 1]."""
    shared, hull = _shared_and_hull(gold, predicted)
    return np.asarray((1 + shared / hull) / 2)  # above 0 this is the IOU, below 0 the share of the gap


def aeiou(gold: Span, predicted: Span) -> Floats:
    """Affinity enhanced IOU."""
    shared, hull = _shared_and_hull(gold, predicted)
    return np.maximum(shared, 1) / hull


def gaeiou(gold: Span, predicted: Span) -> Floats:
    """Generalised aeIOU: disjoint spans lose by the gap itself, too."""
    shared, hull = _shared_and_hull(gold, predicted)
    steps = np.maximum(1 - shared, 0)
    return np.where(shared > 0, shared, 1 / (1 + steps)) / hull


METRICS: Mapping[str, Metric] = MappingProxyType(
    {"tac": tac, "iou": iou, "giou": giou, "aeiou": aeiou, "gaeiou": gaeiou}
)
"""All metrics by the names that results have."""


def time_scores(gold: Span, predicted: Span, at: Sequence[int] = (1, 5, 10)) -> dict[str, Floats]:
    """Every metric@k of every query: the best value among its first k predictions.

    gold: begins and ends of shape (n,); predicted: (n, predictions), best first; values: (n,), by names as `aeiou@1`.
    With fewer predictions than k all are taken.
    """
    gold = (np.asarray(gold[0])[:, None], np.asarray(gold[1])[:, None])
    scores: dict[str, Floats] = {}
    for name, metric in METRICS.items():
        best = np.maximum.accumulate(metric(gold, predicted), axis=1)
        scores |= {f"{name}@{k}": best[:, min(k, best.shape[1]) - 1] for k in at}
    return scores


def time_metrics(gold: Span, predicted: Span, at: Sequence[int] = (1, 5, 10)) -> dict[str, float]:
    """Means of `time_scores` over the queries; all 0 if there are none."""
    scores = time_scores(gold, predicted, at)
    return {name: float(np.mean(values)) if len(values) else 0.0 for name, values in scores.items()}
