"""From raw probabilities to ones that come true as often as they say, learned from cases where the truth is known.

A case has a raw probability p, a group (such as its relation), and was right or wrong. Three maps are tried,

    platt         σ(a · logit p + b)
    isotonic      a rising line through the shares of right cases in bins of like raw probability
    by-relation   isotonic of σ(a · logit p + c · logit rate + b), rate: how often cases of the group are right

and the one with the least log loss on cases that it was not fitted on is taken. All rise with p within a group.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from scipy.optimize import isotonic_regression, minimize

from timeplex.typing import Bools, Floats, Ints

Kind = Literal["platt", "isotonic", "by-relation"]
KINDS: tuple[Kind, ...] = get_args(Kind)

FOLDS = 5
HITS_A_BIN = 20
MOST_BINS = 50
SHRINKAGE = 5
"""A group's rate counts so many cases of the overall rate as its own."""

LEAST = 1e-6
"""Probabilities are kept so far from 0 and 1 where their logits are taken."""


LARGEST = 1e9
"""Fitted numbers are smaller, so that no sum of products of them overflows."""


class CalibrationMap(BaseModel):
    """A raw probability and a group → a probability. Without any fitted value it changes nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["none", "platt", "isotonic", "by-relation"] = "none"
    slope: FiniteFloat = Field(1.0, gt=0)
    intercept: FiniteFloat = 0.0
    of_rate: FiniteFloat = 0.0
    rates: tuple[FiniteFloat, ...] = ()  # logits, by group
    knots: tuple[FiniteFloat, ...] = ()  # where the rising line has its corners
    values: tuple[FiniteFloat, ...] = ()  # and how high it is there

    def fits(self, groups: int) -> bool:
        """Whether it gives a probability for each of so many groups, which a stored one need not."""
        numbers = (self.slope, self.intercept, self.of_rate, *self.rates)
        return (
            all(abs(number) <= LARGEST for number in numbers)
            and len(self.rates) in (0, groups)
            and len(self.knots) == len(self.values)
            and all(low <= high for line in (self.knots, self.values) for low, high in pairwise(line))
            and all(0 <= value <= 1 for value in self.values)
        )

    def __call__(self, raw: Floats, group: Ints) -> Floats:
        """Probabilities of the shape of `raw`; `group` broadcasts with it."""
        if self.kind == "none":
            return raw
        z = self.slope * logit(raw) + self.intercept
        if self.rates:
            z = z + self.of_rate * self._rates[group]
        steady = sigmoid(z)
        if not self.knots:
            return steady
        risen: Floats = np.interp(steady, self._knots, self._values)
        return risen

    @cached_property
    def _rates(self) -> Floats:
        return np.array(self.rates)

    @cached_property
    def _knots(self) -> Floats:
        return np.array(self.knots)

    @cached_property
    def _values(self) -> Floats:
        return np.array(self.values)


def logit(p: Floats) -> Floats:
    """log p / (1 − p), for p kept away from 0 and 1."""
    kept = np.clip(p, LEAST, 1 - LEAST)
    odds: Floats = np.log(kept) - np.log1p(-kept)
    return odds


def fit(kind: Kind, raw: Floats, right: Bools, group: Ints, fold: Ints, groups: int) -> CalibrationMap:
    """A map of that kind by cases, arrays of shape (n,); the fold keeps cases together that belong together."""
    if kind == "platt":
        slope, intercept = _platt(logit(raw)[:, None], right)
        return CalibrationMap(kind=kind, slope=slope, intercept=intercept)
    if kind == "isotonic":
        knots, values = _rising(np.clip(raw, LEAST, 1 - LEAST), right)
        return CalibrationMap(kind=kind, knots=knots, values=values)
    # A rate that the case itself is part of would promise too much: the rates to fit with come from other folds.
    others = np.empty(len(raw))
    for each in np.unique(fold):
        here = fold == each
        others[here] = _rates(right[~here], group[~here], groups)[group[here]]
    slope, of_rate, intercept = _platt(np.stack([logit(raw), others], 1), right)
    plain = CalibrationMap(
        kind=kind,
        slope=slope,
        intercept=intercept,
        of_rate=of_rate,
        rates=tuple(_rates(right, group, groups).tolist()),
    )
    # The same holds for the line that is laid through the outcome.
    knots, values = _rising(sigmoid(slope * logit(raw) + of_rate * others + intercept), right)
    return plain.model_copy(update={"knots": knots, "values": values})


def crossed(kind: Kind, raw: Floats, right: Bools, group: Ints, fold: Ints, groups: int) -> Floats:
    """What cases get from maps that were fitted on the other folds: (n,)."""
    values = np.empty(len(raw))
    for each in np.unique(fold):
        here = fold == each
        found = fit(kind, raw[~here], right[~here], group[~here], fold[~here], groups)
        values[here] = found(raw[here], group[here])
    return values


def log_loss(p: Floats, right: Bools) -> float:
    """Mean of −log of the probability that was given to what came true."""
    kept = np.clip(p, LEAST, 1 - LEAST)
    return float(-np.mean(np.where(right, np.log(kept), np.log1p(-kept))))


def choose(raw: Floats, right: Bools, group: Ints, fold: Ints, groups: int) -> tuple[CalibrationMap, Floats]:
    """The map that is best on cases it has not seen, fitted on all, and what they got when they were not seen: (n,)."""
    tried = {kind: crossed(kind, raw, right, group, fold, groups) for kind in KINDS}
    best = min(KINDS, key=lambda kind: log_loss(tried[kind], right))
    return fit(best, raw, right, group, fold, groups), tried[best]


def folds(count: int, seed: int = 0) -> Ints:
    """A fold for each of `count` things, all folds of about one size, drawn with the seed: (count,)."""
    return np.random.default_rng(seed).permutation(np.arange(count) % FOLDS)


def sigmoid(z: Floats) -> Floats:
    """1 / (1 + exp −z), for any z."""
    return np.asarray(0.5 * (1 + np.tanh(z / 2)))


def _rates(right: Bools, group: Ints, groups: int) -> Floats:
    """Logit of the share of right cases of each group, shrunk towards that of all: (groups,)."""
    overall = (right.sum() + 0.5) / (len(right) + 1)
    count = np.bincount(group, minlength=groups)
    hits = np.bincount(group, weights=right, minlength=groups)
    return logit((hits + SHRINKAGE * overall) / (count + SHRINKAGE))


def _platt(features: Floats, right: Bools) -> list[float]:
    """Weights of a logistic regression, the intercept last; none but the intercept can be negative.

    As Platt advises, truth is taken as a little less sure than it is, so that few cases give no infinite weights.
    """
    hits, misses = int(right.sum()), int((~right).sum())
    target = np.where(right, (hits + 1) / (hits + 2), 1 / (misses + 2))
    start = np.append(np.ones(features.shape[1]) / features.shape[1], 0.0)
    least = [0.01, *[0.0] * (features.shape[1] - 1), None]
    return logistic(features, target, start, least)


def logistic(
    features: Floats, target: Floats, start: Floats, least: Sequence[float | None] | None = None, shrink: float = 0.0
) -> list[float]:
    """Weights of a logistic regression on features (n, f), the intercept last; none is below its `least`.

    What is minimised is the sum of the log losses and ½ shrink |w|², without the intercept.
    """
    columns = np.column_stack([features, np.ones(len(features))])

    def loss(weights: Floats) -> tuple[float, Floats]:
        z, shrunk = columns @ weights, shrink * np.append(weights[:-1], 0.0)
        value = np.sum(np.logaddexp(0, z) - target * z) + shrunk @ weights / 2
        return float(value / len(z)), (columns.T @ (sigmoid(z) - target) + shrunk) / len(z)

    bounds = None if least is None else [(each, None) for each in least]
    found: list[float] = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return found


def _rising(p: Floats, right: Bools) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Corners of a rising line through the shares of right cases in bins, the first at 0.

    Each bin expects as many right cases as any other (the sum of p), because unlikely candidates are many and a bin of
    equal size would hold all the likely ones.
    """
    bins = int(np.clip(right.sum() // HITS_A_BIN, 1, MOST_BINS))
    order = np.argsort(p, kind="stable")
    reached = np.cumsum(p[order])
    which = np.minimum((reached / reached[-1] * bins).astype(np.int64), bins - 1)
    count = np.bincount(which)
    filled = count > 0
    centre, hits = (np.bincount(which, values[order])[filled] for values in (p, right))
    count = count[filled]
    centre, where = np.unique(centre / count, return_inverse=True)
    weight, hits = np.bincount(where, count), np.bincount(where, hits)
    found = isotonic_regression((hits + 0.5) / (weight + 1), weights=weight)
    # Bins that fell out of order share one value; they become one corner, so that the line has no flat steps.
    middle = np.add.reduceat(centre * weight, found.blocks[:-1]) / np.add.reduceat(weight, found.blocks[:-1])
    return (0.0, *middle.tolist()), (0.0, *found.x[found.blocks[:-1]].tolist())


BINS = 10


def reliability(p: Floats, right: Bools, bins: int = BINS) -> list[dict[str, float]]:
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


def calibration_error(p: Floats, right: Bools, bins: int = BINS) -> float:
    """Expected calibration error: mean over cases of |mean p − share of right ones| of their bin."""
    table = reliability(p, right, bins)
    return sum(row["cases"] * abs(row["predicted"] - row["right"]) for row in table) / max(1, len(p))


def before_and_after(before: Floats, after: Floats, right: Bools) -> dict[str, float]:
    """Expected calibration errors, and how often cases are right."""
    return {
        "before": calibration_error(before, right),
        "after": calibration_error(after, right),
        "right": float(right.mean()),
        "cases": float(len(right)),
    }
