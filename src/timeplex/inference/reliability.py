"""How far probabilities are from what comes true: a table and one figure."""

import numpy as np
from numpy.typing import NDArray

from timeplex.kb.spans import Floats

BINS = 10


def reliability(p: Floats, right: NDArray[np.bool_], bins: int = BINS) -> list[dict[str, float]]:
    """Cases sorted by probability, in bins of equal size: how many, from which p to which, its mean, share of right."""
    parts = np.array_split(np.argsort(p, kind="stable"), max(1, min(bins, len(p))))
    return [
        {
            "cases": len(part),
            "from": float(p[part[0]]),
            "to": float(p[part[-1]]),
            "predicted": float(p[part].mean()),
            "right": float(right[part].mean()),
        }
        for part in parts
        if len(part)
    ]


def calibration_error(p: Floats, right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error: mean over cases of |mean p − share of right ones| of their bin."""
    table = reliability(p, right, bins)
    return sum(row["cases"] * abs(row["predicted"] - row["right"]) for row in table) / max(1, len(p))
