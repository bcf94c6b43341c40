"""When a fact held, by patterns alone: Pr(begin), then Pr(end | begin), and the span with the best expected aeIOU.

    Pr(b) ∝ exp Σ_k w_rk x_k(b)             features of all patterns for the begin
    Pr(e | b) ∝ exp Σ_k u_rk x_k(e; b)      those for the end, and what durations and successors say; e ≥ b

Weights are shared, with a correction a relation: w_rk = w_k + v_rk. They are learned by likelihood, with a pull to w⁰
and v⁰ (0, or what was learned before), on training facts that are left out of their own evidence: in each of `FOLDS`
folds, patterns count the facts of the others alone. The loss is convex, so that L-BFGS finds the one best weights.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from timeplex.kb.facts import Facts
from timeplex.patterns import gaps, lifespans, pairs, slots, successions, usual_dates  # noqa: F401  (they register)
from timeplex.patterns.base import PATTERNS, SIDES, Evidence, Pattern, Side, TimeQueries
from timeplex.patterns.durations import Durations
from timeplex.typing import Bools, Features, Floats, Ints, Progress

FOLDS = 4
MOST_FACTS = 6_000
MOST_BYTES = 400_000_000
BEGINS = 60
"""So many of the likeliest begins are looked at."""
ENDS = 40
SUPPORT = 400
"""So many of the likeliest spans stand for all."""
CANDIDATES = 150
PULL = 0.01


SHARED, OWN = 1e-4, 2e-3
"""λ and μ of the penalty λ‖w − w⁰‖² + μ‖v − v⁰‖², beside a loss that is a mean over queries."""
STEPS = 60


@dataclass(frozen=True, eq=False)
class Weights:
    """shared (features,), own (relations, features): corrections; scale (features,): what features are divided by."""

    shared: Floats
    own: Floats
    scale: Floats

    def of(self, r: Ints) -> Floats:
        """What the features of queries of relations r are multiplied with: (n, features)."""
        return ((self.shared + self.own[r]) / self.scale).astype(np.float32)


@njit(cache=True, fastmath=True)
def _loss(x: Features, gold: Ints, r: Ints, low: Ints, weights: Floats, gradient: Floats) -> float:
    """−Σ log Pr(gold) over x (n, features, answers), and its gradient by weights (relations, features).

    Answers before low[query] cannot be.
    """
    queries, features, answers = x.shape
    loss = 0.0
    logits = np.empty(answers)
    for query in range(queries):
        logits[:] = 0.0
        begin = low[query]
        for k in range(features):
            weight = weights[r[query], k]
            for a in range(begin, answers):
                logits[a] += weight * x[query, k, a]
        most = logits[begin:].max()
        total = 0.0
        for a in range(begin, answers):
            logits[a] = np.exp(logits[a] - most)
            total += logits[a]
        loss -= np.log(max(logits[gold[query]] / total, 1e-300))
        for a in range(begin, answers):
            logits[a] /= total
        for k in range(features):
            expected = 0.0
            for a in range(begin, answers):
                expected += logits[a] * x[query, k, a]
            gradient[r[query], k] += expected - x[query, k, gold[query]]
    return loss


def fit_weights(
    x: Features,
    gold: Ints,
    r: Ints,
    relations: int,
    low: Ints | None = None,
    start: Weights | None = None,
    shared: float = SHARED,
    own: float = OWN,
    steps: int = STEPS,
) -> Weights:
    """The best weights for features x (n, features, answers) and the places of right answers, (n,).

    low: the first answer that can be, (n,); start: weights that are to be adjusted.
    """
    features = x.shape[1]
    if start is None:
        spread = x.std(2).mean(0) if len(x) else np.ones(features)
        start = Weights(np.zeros(features), np.zeros((relations, features)), np.where(spread > 1e-6, spread, 1.0))
    if len(x) == 0:
        return start
    low = np.zeros(len(x), np.int64) if low is None else low
    before = np.concatenate([start.shared[None], start.own])
    strength = np.concatenate([[[shared]], np.full((relations, 1), own)])

    def objective(flat: Floats) -> tuple[float, Floats]:
        here = flat.reshape(relations + 1, features)
        gradient = np.zeros((relations, features))
        loss = _loss(x, gold, r, low, (here[:1] + here[1:]) / start.scale, gradient) / len(x)
        gradient /= start.scale * len(x)
        whole = np.concatenate([gradient.sum(0, keepdims=True), gradient])
        away = here - before
        return loss + float((strength * away * away).sum()), (whole + 2 * strength * away).ravel()

    found = minimize(objective, before.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    weights = found.x.reshape(relations + 1, features)
    return Weights(weights[0], weights[1:], start.scale)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Patterns of an evidence, and what durations say."""

    patterns: list[Pattern]
    durations: Durations

    @classmethod
    def of(cls, evidence: Evidence, counted: Bools | None = None, names: tuple[str, ...] | None = None) -> "Fitted":
        """All patterns that say something of years, or those named."""
        chosen = [PATTERNS[name] for name in PATTERNS if names is None or name in names]
        fitted = [pattern(evidence, counted) for pattern in chosen if pattern.year_features]
        return cls(fitted, Durations(evidence, counted))

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """The features of all patterns: (n, features, axis)."""
        return np.concatenate([pattern.years(queries, side) for pattern in self.patterns], 1)

    def names(self, side: Side) -> list[str]:
        """The names of the features."""
        names = [name for pattern in self.patterns for name in pattern.year_features]
        return names + (list(Durations.end_features) if side == "end" else [])

    def ends(self, queries: TimeQueries, begin: Ints) -> Features:
        """The features of the end, given the begin (n,): (n, features, axis)."""
        return np.concatenate([self.years(queries, "end"), self.durations.ends(queries, begin[:, None])[:, 0]], 1)


@dataclass(frozen=True, eq=False)
class Cases:
    """Facts whose date is known: features (n, features, axis), the date's place, relation, first place that can be."""

    x: Features
    gold: Ints
    r: Ints
    low: Ints

    def __getitem__(self, rows: Bools) -> "Cases":
        return Cases(self.x[rows], self.gold[rows], self.r[rows], self.low[rows])


def cases(fitted: Fitted, evidence: Evidence, facts: Facts, own: Ints, side: Side) -> Cases:
    """What patterns say of facts with both ends known."""
    queries = TimeQueries.of(facts, own)
    begin = place(evidence.axis, facts.begin)
    if side == "begin":
        return Cases(fitted.years(queries, "begin"), begin, queries.r, np.zeros(len(facts), np.int64))
    gold = np.maximum(place(evidence.axis, facts.end), begin)
    return Cases(fitted.ends(queries, evidence.axis[begin]), gold, queries.r, begin)


def place(axis: Ints, dates: ArrayLike) -> Ints:
    """Where dates lie on an axis; the nearest instant if they are not on it."""
    dates = np.asarray(dates, np.int64)
    right = np.clip(np.searchsorted(axis, dates), 0, len(axis) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(axis[left] - dates) < np.abs(axis[right] - dates), left, right)


class DateModel:
    """Patterns with the weights of their features."""

    def __init__(self, evidence: Evidence, fitted: Fitted, weights: Mapping[Side, Weights]) -> None:
        self.evidence, self.fitted, self.weights = evidence, fitted, weights

    @classmethod
    def fit(
        cls,
        evidence: Evidence,
        dev: Facts | None = None,
        names: tuple[str, ...] | None = None,
        on_progress: Progress | None = None,
    ) -> "DateModel":
        """Learn the weights on the evidence itself, and adjust them on dev facts."""
        learned = _learn(evidence, names, on_progress)
        model = cls(evidence, Fitted.of(evidence, names=names), learned)
        return model if dev is None else model.adjusted(dev)

    def adjusted(self, dev: Facts, pull: float = PULL) -> "DateModel":
        """The same with weights drawn towards those that suit dev facts best."""
        dev = dev[dev.closed]
        own = np.full(len(dev), -1)
        weights: dict[Side, Weights] = {}
        for side in SIDES:
            of = cases(self.fitted, self.evidence, dev, own, side)
            start = self.weights[side]
            weights[side] = fit_weights(of.x, of.gold, of.r, self.evidence.relations, of.low, start, pull, pull)
        return DateModel(self.evidence, self.fitted, weights)

    def begins(self, queries: TimeQueries) -> Floats:
        """Pr(begin) over the axis: (n, axis)."""
        return _softmax(_logits(self.fitted.years(queries, "begin"), self.weights["begin"].of(queries.r)))

    def joint(self, queries: TimeQueries) -> tuple[Ints, Floats, Floats]:
        """The likeliest begins (n, m) as places, their Pr (n, m), and Pr(end | begin) (n, m, axis)."""
        begins = self.begins(queries)
        most = min(BEGINS, begins.shape[1])
        top = np.sort(np.argpartition(-begins, most - 1, axis=1)[:, :most], axis=1)
        axis, weights = self.evidence.axis, self.weights["end"].of(queries.r)
        plain = weights.shape[1] - len(Durations.end_features)
        alone = _logits(self.fitted.years(queries, "end"), weights[:, :plain])
        given = self.fitted.durations.ends(queries, axis[top])
        logits = alone[:, None] + np.einsum("nmfy,nf->nmy", given, weights[:, plain:], optimize=True)
        logits[np.arange(len(axis)) < top[:, :, None]] = -np.inf
        return top, np.take_along_axis(begins, top, 1), _softmax(logits)

    def instants(self, queries: TimeQueries) -> Floats:
        """How likely each instant of the axis lies in the span, in sum 1: (n, axis)."""
        places, likely, ends = self.joint(queries)
        reaches = np.cumsum(ends[:, :, ::-1], 2)[:, :, ::-1]
        begun = np.arange(ends.shape[2]) >= places[:, :, None]
        covered = np.einsum("nm,nmy->ny", likely, reaches * begun)
        return np.asarray(covered / covered.sum(1, keepdims=True))

    def spans(self, queries: TimeQueries, top: int = 1) -> tuple[Ints, Ints]:
        """The spans with the best expected aeIOU, best first, as calendar instants: (n, top) each."""
        begin, end = (np.empty((len(queries), top), np.int64) for _ in range(2))
        for part in _blocks(len(queries), 64):
            places, likely, ends = self.joint(queries[part])
            _decode(self.evidence.axis, places, likely, ends, begin[part], end[part])
        return begin, end


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


def _learn(evidence: Evidence, names: tuple[str, ...] | None, on_progress: Progress | None) -> dict[Side, Weights]:
    facts, chance = evidence.facts, np.random.default_rng(0)
    fold = chance.integers(FOLDS, size=len(facts))
    picked = chance.permutation(np.flatnonzero(facts.closed))
    features = len(Fitted.of(evidence.without(np.ones(len(facts), bool)), names=names).names("end"))
    most = min(MOST_FACTS, MOST_BYTES // (4 * features * len(evidence.axis)))
    picked = picked[:most]
    found: dict[Side, list[Cases]] = {side: [] for side in SIDES}
    for each in range(FOLDS):
        fitted = Fitted.of(evidence, fold != each, names)
        rows = picked[fold[picked] == each]
        for side in SIDES:
            found[side].append(cases(fitted, evidence, facts[rows], rows, side))
        if on_progress is not None:
            on_progress(each + 1, FOLDS)
    weights: dict[Side, Weights] = {}
    for side, parts in found.items():
        x, gold, r, low = (np.concatenate([getattr(of, name) for of in parts]) for name in ("x", "gold", "r", "low"))
        parts.clear()
        weights[side] = fit_weights(x, gold, r, evidence.relations, low)
    return weights


def _logits(x: Features, weights: Floats) -> Floats:
    return np.asarray(np.einsum("nfy,nf->ny", x, weights, optimize=True))


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))


@njit(cache=True)
def _decode(axis: Ints, places: Ints, likely: Floats, ends: Floats, begin: Ints, end: Ints) -> None:
    """The candidates with the highest expected aeIOU over the likeliest spans."""
    queries, begins, instants = ends.shape
    top = begin.shape[1]
    for query in range(queries):
        mass = np.empty(begins * instants)
        for at in range(begins):
            for last in range(instants):
                mass[at * instants + last] = likely[query, at] * ends[query, at, last]
        order = np.argsort(-mass)[:SUPPORT]
        total = min(CANDIDATES, len(order))
        worth = np.zeros(total)
        for one in range(total):
            b = axis[places[query, order[one] // instants]]
            e = axis[order[one] % instants]
            for other in order:
                if mass[other] <= 0:
                    break
                low, high = axis[places[query, other // instants]], axis[other % instants]
                shared = min(e, high) - max(b, low) + 1
                hull = max(e, high) - min(b, low) + 1
                worth[one] += mass[other] * max(shared, 1) / hull
        best = np.argsort(-worth)
        for nth in range(top):
            one = order[best[min(nth, total - 1)]]
            begin[query, nth] = axis[places[query, one // instants]]
            end[query, nth] = axis[one % instants]
