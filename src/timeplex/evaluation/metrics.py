"""What is computed from ranks and from predicted spans: MRR, MR, HITS@k, and the time metrics, over all or by group."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from timeplex.evaluation.protocol import FILTERS
from timeplex.evaluation.ranking import Ranks
from timeplex.kb import spans
from timeplex.kb.spans import Span
from timeplex.typing import Floats, Ints

HITS = (1, 3, 10)


def link_metrics(ranks: Ranks) -> dict[str, float]:
    """Mean reciprocal rank, mean rank, and the shares of ranks up to k; all 0 if there are no ranks."""
    if len(ranks) == 0:
        return {"mrr": 0.0, "mr": 0.0, **{f"hits@{k}": 0.0 for k in HITS}}
    return {
        "mrr": float(np.mean(1 / ranks)),
        "mr": float(np.mean(ranks)),
        **{f"hits@{k}": float(np.mean(ranks <= k)) for k in HITS},
    }


def rank_column(filter_: str) -> str:
    """The name of the column with the ranks under a filter."""
    return f"rank_{filter_.replace('-', '_')}"


def link_figures(queries: pl.DataFrame, by: str | None = None) -> pl.DataFrame:
    """Figures of link prediction from a table of queries.

    A row for each filter, direction (subject, object, both) and group: queries, mrr, mr, hits@1, hits@3, hits@10. No
    rows if the table has no ranks.
    """
    filters = [name for name in FILTERS if rank_column(name) in queries.columns]
    if not filters:
        return pl.DataFrame()
    keys = ["filter", *([by] if by else []), "direction"]
    long = pl.concat(
        queries.select("direction", *([by] if by else []), filter=pl.lit(name), rank=pl.col(rank_column(name)))
        for name in filters
    )
    both = long.with_columns(direction=pl.lit("both"))
    rank = pl.col("rank")
    figures = (
        pl.concat([long, both], rechunk=True)
        .group_by(keys, maintain_order=True)  # else the sums run in another order each time
        .agg(
            pl.len().alias("queries"),
            (1 / rank).mean().alias("mrr"),
            rank.mean().alias("mr"),
            *((rank <= k).mean().alias(f"hits@{k}") for k in HITS),
        )
    )
    order = pl.DataFrame({"filter": list(FILTERS), "place": range(len(FILTERS))})
    ranked = figures.join(order, on="filter").sort("place", *([by] if by else []), "direction")
    return ranked.select(*keys, "queries", "mrr", "mr", *(f"hits@{k}" for k in HITS))


def time_figures(times: pl.DataFrame, by: str | None = None) -> pl.DataFrame:
    """Means of the time metrics, a row for each decoder and group: facts, and a column for each metric@k."""
    keys = ["decoder", *([by] if by else [])]
    metrics = [column for column in times.columns if "@" in column]
    order = times["decoder"].unique(maintain_order=True).to_frame().with_row_index("place")
    figures = times.group_by(keys, maintain_order=True).agg(
        pl.len().alias("facts"), *(pl.col(metric).mean() for metric in metrics)
    )
    return figures.join(order, on="decoder").sort("place", *keys[1:]).drop("place")


def nested(frame: pl.DataFrame, keys: Sequence[str]) -> dict[str, Any]:
    """A table as dictionaries, one level a key."""
    if frame.is_empty():
        return {}
    if not keys:
        return frame.row(0, named=True)
    first, *rest = keys
    return {
        str(value): nested(part.drop(first), rest)
        for (value,), part in frame.partition_by(first, as_dict=True, maintain_order=True).items()
    }


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
