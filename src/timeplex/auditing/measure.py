"""How well an audit finds injected errors: precision at the number injected, and average precision."""

import numpy as np

from timeplex.auditing.findings import Findings
from timeplex.typing import Floats, Ints


def ranked_facts(findings: Findings) -> Ints:
    """The suspicious facts, most suspicious first, each once: rows of `kb.facts`."""
    _, first = np.unique(findings.rows, return_index=True)
    return findings.rows[np.sort(first)]


def precision_at_injected(ranked: Ints, injected: Ints) -> float:
    """Of the n first facts, the share that was injected; n is the number injected. A shorter list misses the rest."""
    return float(np.isin(ranked[: len(injected)], injected).sum() / max(len(injected), 1))


def average_precision(ranked: Ints, injected: Ints) -> float:
    """The mean, over all injected facts, of the precision down to their rank; 0 for those that are not found."""
    hit = np.isin(ranked, injected)
    precision: Floats = np.cumsum(hit) / np.arange(1, len(hit) + 1)
    return float(precision[hit].sum() / max(len(injected), 1))
