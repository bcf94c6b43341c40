"""Is one model better than another on the same queries: a paired t-test and a bootstrap interval.

The unit is the fact, not the query: the subject and the object query of a fact are not independent, so their values
are averaged first.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from timeplex.errors import InputError
from timeplex.typing import Floats

RESAMPLES = 2000
CONFIDENCE = 0.95
BLOCK = 4_000_000
"""Numbers drawn at a time in the bootstrap: 32 MB."""


@dataclass(frozen=True)
class Comparison:
    """Mean values of two models on the same facts, and what can be said of their difference (second − first)."""

    facts: int
    first: float
    second: float
    difference: float
    low: float  # the bootstrap interval of the difference
    high: float
    p: float  # of the paired t-test; 1 if nothing differs


def compare(first: Floats, second: Floats, seed: int = 0) -> Comparison:
    """Compare two models by their values on the same facts, (n,) each."""
    if len(first) != len(second):
        raise InputError("The models were not asked the same queries.", "Evaluate both on the same KB and split.")
    if len(first) == 0:
        return Comparison(0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    difference = second - first
    low, high = bootstrap(difference, seed)
    return Comparison(
        len(first), float(first.mean()), float(second.mean()), float(difference.mean()), low, high, _p(difference)
    )


def _p(difference: Floats) -> float:
    """The chance of a mean this far from 0 if there were no difference, by Student's t with n − 1 degrees."""
    if len(difference) < 2 or not difference.any():
        return 1.0
    if np.ptp(difference) == 0:
        return 0.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def bootstrap(values: Floats, seed: int = 0) -> tuple[float, float]:
    """The percentile interval of the mean, from means of facts drawn with replacement."""
    generator = np.random.default_rng(seed)
    size = max(1, BLOCK // len(values))
    means = [
        values[generator.integers(0, len(values), (min(size, RESAMPLES - start), len(values)))].mean(1)
        for start in range(0, RESAMPLES, size)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def reciprocal_ranks(queries: pl.DataFrame, column: str) -> pl.DataFrame:
    """The mean reciprocal rank of each fact's queries: columns fact, relation, value."""
    asked = queries.filter(pl.col(column).is_not_null())
    return asked.group_by("fact", "relation").agg((1 / pl.col(column)).mean().alias("value")).sort("fact")


def compare_tables(first: pl.DataFrame, second: pl.DataFrame, by_relation: bool) -> dict[str, Comparison]:
    """Compare tables of (fact, relation, value): over all facts, and for each relation if asked for."""
    if not first.select("fact", "relation").equals(second.select("fact", "relation")):
        raise InputError("The models were not asked the same queries.", "Evaluate both on the same KB and split.")
    a, b = first["value"].to_numpy(), second["value"].to_numpy()
    found = {"all": compare(a, b)}
    if by_relation:
        relations = first["relation"].to_numpy()
        for relation in np.unique(relations):
            mine = relations == relation
            found[str(relation)] = compare(a[mine], b[mine])
    return found
