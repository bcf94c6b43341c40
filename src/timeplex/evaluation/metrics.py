"""What is computed from ranks: MRR, MR and HITS@k."""

from collections.abc import Iterable

import numpy as np

from timeplex.evaluation.ranking import Ranks


def link_metrics(ranks: Ranks, hits: Iterable[int] = (1, 3, 10)) -> dict[str, float]:
    """Mean reciprocal rank, mean rank, and the shares of ranks up to k; all 0 if there are no ranks."""
    if len(ranks) == 0:
        return {"mrr": 0.0, "mr": 0.0, **{f"hits@{k}": 0.0 for k in hits}}
    return {
        "mrr": float(np.mean(1 / ranks)),
        "mr": float(np.mean(ranks)),
        **{f"hits@{k}": float(np.mean(ranks <= k)) for k in hits},
    }
