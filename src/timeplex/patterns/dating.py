"""When a fact held, by patterns alone: Pr(begin), then Pr(end | begin), and the span with the best expected aeIOU.

    Pr(b) ∝ exp Σ_k w_rk x_k(b)             features of all patterns for the begin
    Pr(e | b) ∝ exp Σ_k u_rk x_k(e; b)      those for the end, and what durations and successors say; e ≥ b

Weights are shared, with a correction a relation: w_rk = w_k + v_rk. They are learned by likelihood, with a pull to w⁰
and v⁰ (0, or what was learned before), on training facts that are left out of their own evidence: in each of `FOLDS`
folds, patterns count the facts of the others alone. The loss is convex, so that L-BFGS finds the one best weights.

An axis of many instants has cells of several (`base.axis_of`). Then a question is looked at twice (`focus`): on the
cells and the instants that patterns point at exactly, then also on all instants of the likeliest cells. A cell of w
instants counts w times: Pr ∝ w · exp Σ.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from timeplex.kb import spans
from timeplex.kb.facts import Facts, pair_key
from timeplex.patterns import gaps, lifespans, pairs, slots, successions, usual_dates  # noqa: F401  (they register)
from timeplex.patterns.base import PATTERNS, SIDES, Evidence, Pattern, Side, TimeQueries
from timeplex.patterns.densities import SPIKES
from timeplex.patterns.durations import Durations, ends_given
from timeplex.typing import Bools, Features, Floats, Ints, Progress

FOLDS = 4
MOST_FACTS = 6_000
MOST_BYTES = 400_000_000
BLOCK = 64
"""So many queries are looked at together."""
BEGINS = 60
"""So many of the likeliest begins are looked at, …"""
RARE = 1e-4
"""… unless the best is so much likelier."""
UNLIKELY = 1e-6
"""Spans so much less likely than the best are left out."""
SUPPORT = 400
"""So many of the likeliest spans stand for all."""
CANDIDATES = 150
PULL, ENOUGH_DEV = 0.1, 4_000
"""How much dev facts leave of the weights that train taught; with fewer dev facts the pull is as much stronger."""
POINTS = 384
"""At most so many instants are looked at exactly at first, …"""
DAYS = 128
"""… and so many of the likeliest cells then, for the begin and for the end, …"""
FROM = 16
"""… and the usual ends of so many begins."""
OF_ITS_OWN = SPIKES + 6
"""A training fact's own dates, and the usual ends after its begin."""
FAR = 2**31
"""Added to instants, so that they are not negative in a key."""
PARTS = 8
"""What is learned is summed over so many parts, however many threads there are, so that it is always the same."""


SHARED, OWN = 1e-4, 1e-3
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


@njit(cache=True, nogil=True, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})
def _loss(
    x: Features, width: Ints, active: Bools, gold: Ints, r: Ints, low: Ints, weights: Floats, gradient: Floats
) -> float:
    """−Σ log Pr(gold) over x (n, features, answers), and its gradient by weights (relations, features).

    width (n or 1, answers): how often an answer counts. Answers before low[query] cannot be. active (n, features):
    the others say the same of every answer, and nothing by that.
    """
    queries, features, answers = x.shape
    loss, space, zero = 0.0, np.empty(answers, x.dtype), x.dtype.type(0)
    for query in range(queries):
        low_, relation = low[query], r[query]
        here, logits = width[query if len(width) > 1 else 0, low_:], space[low_:]
        logits[:] = 0
        for k in range(features):
            if active[query, k]:
                row, weight = x[query, k, low_:], weights[relation, k]
                for a in range(len(row)):
                    logits[a] += weight * row[a]
        most = logits[gold[query] - low_]
        for a in range(len(logits)):
            if here[a] > zero:  # the others only fill up the row
                most = max(most, logits[a])
        right = float(logits[gold[query] - low_] - most)
        total = 0.0
        for a in range(len(logits)):
            logits[a] = np.exp(logits[a] - most) * here[a] if here[a] > zero else zero
            total += logits[a]
        loss -= min(max(right - np.log(total), -700.0), 0.0)
        for k in range(features):
            if active[query, k]:
                row, expected = x[query, k, low_:], zero
                for a in range(len(row)):
                    expected += logits[a] * row[a]
                gradient[relation, k] += expected / total - row[gold[query] - low_]
    return loss


def _spread(x: Features) -> Floats:
    """The standard deviation of each feature over answers, on average over queries: (features,)."""
    deviations = [x[part].std(2, dtype=np.float64) for part in _blocks(len(x), BLOCK)]
    return np.asarray(np.concatenate(deviations).mean(0)) if deviations else np.ones(x.shape[1])


def _active(x: Features, low: Ints) -> Bools:
    """Which features tell answers apart: (n, features)."""
    active = np.empty(x.shape[:2], np.bool_)
    _tell_apart(x, low, active)
    return active


@njit(cache=True, nogil=True)
def _tell_apart(x: Features, low: Ints, active: Bools) -> None:
    for query in range(len(x)):
        for k in range(x.shape[1]):
            row = x[query, k, low[query] :]
            active[query, k] = False
            for a in range(1, len(row)):
                if row[a] != row[0]:
                    active[query, k] = True
                    break


def fit_weights(
    x: Features,
    gold: Ints,
    r: Ints,
    relations: int,
    low: Ints | None = None,
    width: Ints | None = None,
    start: Weights | None = None,
    shared: float = SHARED,
    own: float = OWN,
    steps: int = STEPS,
) -> Weights:
    """The best weights for features x (n, features, answers) and the places of right answers, (n,).

    low: the first answer that can be, (n,); width: how often an answer counts, (n or 1, answers); start: weights that
    are to be adjusted.
    """
    features = x.shape[1]
    if start is None:
        spread = _spread(x)
        start = Weights(np.zeros(features), np.zeros((relations, features)), np.where(spread > 1e-6, spread, 1.0))
    if len(x) == 0:
        return start
    low = np.zeros(len(x), np.int64) if low is None else low
    width = np.ones((1, x.shape[2]), np.int64) if width is None else width
    width = np.asarray(width, x.dtype)
    before = np.concatenate([start.shared[None], start.own])
    strength = np.concatenate([[[shared]], np.full((relations, 1), own)])
    active = _active(x, low)
    parts = list(_blocks(len(x), -(-len(x) // PARTS)))

    def part_of(part: slice, weights: Floats) -> tuple[float, Floats]:
        gradient = np.zeros((relations, features))
        wide = width[part] if len(width) > 1 else width
        return _loss(x[part], wide, active[part], gold[part], r[part], low[part], weights, gradient), gradient

    with ThreadPoolExecutor(min(PARTS, os.cpu_count() or 1)) as threads:

        def objective(flat: Floats) -> tuple[float, Floats]:
            here = flat.reshape(relations + 1, features)
            weights = ((here[:1] + here[1:]) / start.scale).astype(x.dtype)
            said = list(threads.map(part_of, parts, repeat(weights)))  # in order: the sum is always the same
            loss = sum(loss for loss, _ in said) / len(x)
            gradient = np.sum([gradient for _, gradient in said], axis=0) / (start.scale * len(x))
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
        """The features of all patterns: (n, features, instants)."""
        return np.concatenate([pattern.years(queries, side) for pattern in self.patterns], 1)

    def points(self, queries: TimeQueries) -> tuple[Ints, Ints]:
        """The instants that patterns point at most, at most `POINTS` a query: (query, instant), in order."""
        found = [pattern.points(queries, side) for pattern in self.patterns for side in SIDES]
        place, at, strength = (np.concatenate(parts) for parts in zip(*found, strict=True))
        key, which = np.unique(pair_key(place, at + FAR), return_inverse=True)
        total = np.bincount(which, strength, len(key))
        order = np.lexsort((key, -total, key >> 32))
        start = np.searchsorted(key[order] >> 32, np.arange(len(queries)))
        kept = np.sort(key[order[np.arange(len(key)) - start[key[order] >> 32] < POINTS]])
        return kept >> 32, (kept & 0xFFFFFFFF) - FAR

    def names(self, side: Side) -> list[str]:
        """The names of the features."""
        names = [name for pattern in self.patterns for name in pattern.year_features]
        return names + (list(Durations.end_features) if side == "end" else [])

    def ends(self, queries: TimeQueries, begin: Ints) -> Features:
        """The features of the end, given the begin (n,): (n, features, axis)."""
        return np.concatenate([self.years(queries, "end"), self.durations.ends(queries, begin[:, None])[:, 0]], 1)


@dataclass(frozen=True, eq=False)
class Cases:
    """Facts whose date is known: features (n, features, instants), the date's place, relation, first place that can be.

    width (n or 1, instants): how many instants each stands for.
    """

    x: Features
    gold: Ints
    r: Ints
    low: Ints
    width: Ints

    def weights(
        self, relations: int, start: Weights | None = None, shared: float = SHARED, own: float = OWN
    ) -> Weights:
        """The weights that suit them best."""
        return fit_weights(self.x, self.gold, self.r, relations, self.low, self.width, start, shared, own)


def asked(fitted: Fitted, evidence: Evidence, facts: Facts, own: Ints) -> TimeQueries:
    """Questions made of facts with both ends known, on an axis that has their own dates too."""
    queries = TimeQueries.of(facts, own)
    if not is_coarse(evidence):
        return queries
    begin, end = facts.begin.astype(np.int64)[:, None], facts.end.astype(np.int64)[:, None]
    dates = np.concatenate([fitted.durations.points(queries, begin), end], 1)
    return closer(queries, evidence, *fitted.points(queries), dates)


def cases(fitted: Fitted, evidence: Evidence, facts: Facts, own: Ints, side: Side) -> Cases:
    """What patterns say of facts with both ends known."""
    queries = asked(fitted, evidence, facts, own)
    axis, width = queries.instants(evidence), queries.widths(evidence)
    begin = places(axis, facts.begin)
    if side == "begin":
        return Cases(fitted.years(queries, "begin"), begin, queries.r, np.zeros(len(facts), np.int64), width)
    gold = np.maximum(places(axis, facts.end), begin)
    here = np.take_along_axis(axis, begin[:, None], 1)[:, 0] if len(axis) > 1 else axis[0][begin]
    return Cases(fitted.ends(queries, here), gold, queries.r, begin, width)


def is_coarse(evidence: Evidence) -> bool:
    """Whether the axis has cells of several instants."""
    return bool((evidence.width > 1).any())


def closer(queries: TimeQueries, evidence: Evidence, place: Ints, at: Ints, more: Ints) -> TimeQueries:
    """Queries on the evidence's cells and on single instants: `at` for the queries `place`, and more (n, some)."""
    low, past = evidence.axis[0], evidence.axis[-1] + evidence.width[-1]
    place = np.concatenate([place, np.repeat(np.arange(len(queries)), more.shape[1])])
    at = np.concatenate([at, more.ravel()])
    inside = (at >= low) & (at < past)
    key = np.unique(pair_key(place[inside], at[inside] + FAR))
    start = np.searchsorted(key >> 32, np.arange(len(queries) + 1))
    most = len(evidence.axis) + (int(np.diff(start).max()) if len(queries) else 0)
    axis, width = (np.zeros((len(queries), most), np.int64) for _ in range(2))
    _cells(evidence.axis, evidence.width, start, (key & 0xFFFFFFFF) - FAR, axis, width)
    return replace(queries, axis=axis, width=width)


@njit(cache=True, nogil=True)
def _cells(grid: Ints, wide: Ints, start: Ints, points: Ints, axis: Ints, width: Ints) -> None:
    """Cells with some of their instants apart; for the rest of a cell its first other instant stands."""
    for query in range(len(start) - 1):
        point, stop, out = start[query], start[query + 1], 0
        for cell in range(len(grid)):
            past = grid[cell] + wide[cell]
            while point < stop and points[point] < grid[cell]:  # between two cells
                axis[query, out], width[query, out] = points[point], 1
                out, point = out + 1, point + 1
            rest, inside = grid[cell], point
            while inside < stop and points[inside] < past:
                rest += points[inside] == rest
                inside += 1
            left = wide[cell] - (inside - point)
            while point < inside and points[point] < rest:
                axis[query, out], width[query, out] = points[point], 1
                out, point = out + 1, point + 1
            if left > 0:
                axis[query, out], width[query, out] = rest, left
                out += 1
            while point < inside:
                axis[query, out], width[query, out] = points[point], 1
                out, point = out + 1, point + 1
        axis[query, out:] = axis[query, out - 1]


def places(axis: Ints, dates: ArrayLike) -> Ints:
    """Where dates (n,) lie on axes (n, instants), or on one for all, (1, instants); the nearest if not on it."""
    dates = np.asarray(dates, np.int64)
    if len(axis) == 1:
        return place(axis[0], dates)
    return np.asarray(np.abs(axis - dates[:, None]).argmin(1), np.int64)


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
        most: int = MOST_FACTS,
    ) -> "DateModel":
        """Learn the weights on the evidence itself, `most` facts of it, and adjust them on dev facts."""
        learned = _learn(evidence, names, on_progress, most)
        model = cls(evidence, Fitted.of(evidence, names=names), learned)
        return model if dev is None else model.adjusted(dev)

    def adjusted(self, dev: Facts, pull: float = PULL) -> "DateModel":
        """The same with weights drawn towards those that suit dev facts best."""
        dev = dev[dev.closed]
        pull *= max(1.0, ENOUGH_DEV / max(len(dev), 1))
        own = np.full(len(dev), -1)
        weights: dict[Side, Weights] = {}
        for side in SIDES:
            of = [(self.fitted, dev, own)]
            start, relations = self.weights[side], self.evidence.relations
            weights[side] = _collect(self.evidence, of, side).weights(relations, start, pull, pull)
        return DateModel(self.evidence, self.fitted, weights)

    def begins(self, queries: TimeQueries) -> Floats:
        """Pr(begin) over the queries' instants: (n, instants); of the whole cell where one stands for several."""
        logits = _logits(self.fitted.years(queries, "begin"), self.weights["begin"].of(queries.r))
        return _softmax(logits, queries.widths(self.evidence))

    def joint(self, queries: TimeQueries, begins: Floats | None = None) -> tuple[Ints, Floats, Floats]:
        """The likeliest begins (n, m) as places, their Pr (n, m), and Pr(end | begin) (n, m, instants).

        Begins below `RARE` of the best have Pr 0, and no ends. `begins` is Pr(begin), if it is known already.
        """
        begins = self.begins(queries) if begins is None else begins
        most = min(BEGINS, begins.shape[1])
        top = np.sort(np.argpartition(-begins, most - 1, axis=1)[:, :most], axis=1)
        likely = np.take_along_axis(begins, top, 1)
        likely[likely < RARE * likely.max(1, keepdims=True)] = 0
        return top, likely, self.ends(queries, top, likely)

    def ends(self, queries: TimeQueries, top: Ints, likely: Floats) -> Floats:
        """Pr(end | begin) of begins at the places `top`, (n, m), over the axis: (n, m, instants).

        likely (n, m): how likely each begin is; those with 0 have no ends.
        """
        axis, width = queries.instants(self.evidence), queries.widths(self.evidence)
        weights, durations = self.weights["end"].of(queries.r), self.fitted.durations
        plain = weights.shape[1] - len(Durations.end_features)
        alone = _logits(self.fitted.years(queries, "end"), weights[:, :plain])
        every = np.broadcast_to(axis, (len(queries), axis.shape[1]))
        following = durations.successors(queries, np.take_along_axis(every, top, 1))
        ends = np.empty((*top.shape, axis.shape[1]))
        given = np.ascontiguousarray(weights[:, plain:])
        table, bucket = durations.table, durations.buckets.of
        ends_given(alone, width, axis, queries.r, given, top, likely, following, table, bucket, spans.OPEN_END, ends)
        return ends

    def focus(self, queries: TimeQueries) -> TimeQueries:
        """The queries on axes of their own if that of the evidence has cells: what matters is on them exactly."""
        evidence = self.evidence
        if not is_coarse(evidence) or queries.axis is not None:
            return queries
        pointed = self.fitted.points(queries)
        first = closer(queries, evidence, *pointed, np.empty((len(queries), 0), np.int64))
        begins = self.begins(first)
        _, likely, ends = self.joint(first, begins)
        few = np.argsort(-begins, axis=1, kind="stable")[:, :FROM]
        usual = self.fitted.durations.points(first, np.take_along_axis(first.instants(evidence), few, 1))
        days = (days_of(first, evidence, of) for of in (begins, np.einsum("nm,nmy->ny", likely, ends)))
        return closer(queries, evidence, *pointed, np.concatenate([*days, usual], 1))

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
        for part in _blocks(len(queries), BLOCK):
            here = self.focus(queries[part])
            begin[part], end[part] = self.best(here, *self.joint(here), top)
        return begin, end

    def best(self, queries: TimeQueries, places: Ints, likely: Floats, ends: Floats, top: int = 1) -> tuple[Ints, Ints]:
        """The spans with the best expected aeIOU by what `joint` says, best first: (n, top) each."""
        begin, end = (np.empty((len(queries), top), np.int64) for _ in range(2))
        _decode(queries.instants(self.evidence), places, likely, ends, begin, end)
        return begin, end


def days_of(queries: TimeQueries, evidence: Evidence, likely: Floats) -> Ints:
    """All instants of the likeliest cells, of Pr (n, instants): (n, about `DAYS`)."""
    widest = int(evidence.width.max())
    count = min(max(DAYS // widest, 1), len(evidence.axis))
    several = np.where(queries.widths(evidence) > 1, likely, -1)
    best = np.argsort(-several, axis=1, kind="stable")[:, :count]
    at = np.take_along_axis(queries.instants(evidence), best, 1)
    cell = np.searchsorted(evidence.axis, at, side="right") - 1
    days = evidence.axis[cell][:, :, None] + np.minimum(np.arange(widest), evidence.width[cell][:, :, None] - 1)
    return days.reshape(len(queries), -1)


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(at, min(at + size, count)) for at in range(0, count, max(size, 1)))


def _learn(
    evidence: Evidence, names: tuple[str, ...] | None, on_progress: Progress | None, most: int
) -> dict[Side, Weights]:
    facts, chance = evidence.facts, np.random.default_rng(0)
    fold = chance.integers(FOLDS, size=len(facts))
    picked = chance.permutation(np.flatnonzero(facts.closed))
    picked = picked[: min(most, MOST_BYTES // (4 * _features(evidence, names, "end") * _instants(evidence)))]
    parts = []
    for each in range(FOLDS):
        rows = picked[fold[picked] == each]
        parts.append((Fitted.of(evidence, fold != each, names), facts[rows], rows))
        if on_progress is not None:
            on_progress(each + 1, FOLDS + len(SIDES))
    weights: dict[Side, Weights] = {}
    for at, side in enumerate(SIDES):
        weights[side] = _collect(evidence, parts, side).weights(evidence.relations)
        if on_progress is not None:
            on_progress(FOLDS + at + 1, FOLDS + len(SIDES))
    return weights


def _features(evidence: Evidence, names: tuple[str, ...] | None, side: Side) -> int:
    return len(Fitted.of(evidence.without(np.ones(len(evidence), bool)), names=names).names(side))


def _instants(evidence: Evidence) -> int:
    """How many instants a training case may have at most."""
    return len(evidence.axis) + (POINTS + OF_ITS_OWN if is_coarse(evidence) else 0)


def _collect(evidence: Evidence, parts: list[tuple[Fitted, Facts, Ints]], side: Side) -> Cases:
    """The cases of facts, each with its patterns and the rows that they have in the evidence: in one array."""
    count, features = sum(len(facts) for _, facts, _ in parts), len(parts[0][0].names(side))
    coarse, most = is_coarse(evidence), _instants(evidence)
    x = np.zeros((count, features, most), np.float32)
    width = np.zeros((count, most), np.int64) if coarse else evidence.width[None]
    gold, r, low = (np.empty(count, np.int64) for _ in range(3))

    def fill(first: int, fitted: Fitted, facts: Facts, own: Ints) -> None:
        of, rows = cases(fitted, evidence, facts, own, side), slice(first, first + len(facts))
        x[rows, :, : of.x.shape[2]] = of.x
        if coarse:
            width[rows, : of.x.shape[2]] = of.width
        gold[rows], r[rows], low[rows] = of.gold, of.r, of.low

    first = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        filled = []
        for fitted, facts, own in parts:
            blocks = _blocks(len(facts), BLOCK)
            filled += [threads.submit(fill, first + at.start, fitted, facts[at], own[at]) for at in blocks]
            first += len(facts)
        for each in filled:
            each.result()
    return Cases(x, gold, r, low, width)


def _logits(x: Features, weights: Floats) -> Floats:
    """Σ_k w_k x_k of features (n, features, instants): (n, instants)."""
    logits = np.zeros((len(x), x.shape[2]))
    _weigh(x, weights, logits)
    return logits


@njit(cache=True, nogil=True)
def _weigh(x: Features, weights: Floats, logits: Floats) -> None:
    for query in range(len(x)):
        for k in range(x.shape[1]):
            weight = weights[query, k]
            for place in range(x.shape[2]):
                logits[query, place] += weight * x[query, k, place]


def _softmax(logits: Floats, width: Ints) -> Floats:
    """Pr ∝ width · exp(logits) over the last axis."""
    there = np.where(width > 0, logits, -np.inf)  # the others only fill up the row
    shifted = np.exp(there - there.max(-1, keepdims=True)) * width
    return np.asarray(shifted / shifted.sum(-1, keepdims=True))


@njit(cache=True, nogil=True)
def _decode(axis: Ints, places: Ints, likely: Floats, ends: Floats, begin: Ints, end: Ints) -> None:
    """The candidates with the highest expected aeIOU over the likeliest spans."""
    instants, top = ends.shape[2], begin.shape[1]
    for query in range(len(ends)):
        here = axis[query if len(axis) > 1 else 0]
        span, mass = _likeliest(likely[query], ends[query], SUPPORT)
        low, high = here[places[query][span // instants]], here[span % instants]
        total = min(CANDIDATES, len(span))
        worth = np.zeros(total)
        for one in range(total):
            b, e = low[one], high[one]
            for other in range(len(span)):
                shared = min(e, high[other]) - max(b, low[other]) + 1
                hull = max(e, high[other]) - min(b, low[other]) + 1
                worth[one] += mass[other] * max(shared, 1) / hull
        best = np.argsort(-worth, kind="mergesort")
        for nth in range(top):
            one = best[min(nth, total - 1)]
            begin[query, nth], end[query, nth] = low[one], high[one]


@njit(cache=True, nogil=True)
def _likeliest(likely: Floats, ends: Floats, support: int) -> tuple[Ints, Floats]:
    """The `support` likeliest spans as begin · instants + end, and their Pr, best first."""
    begins, instants = ends.shape
    most = 0.0
    for at in range(begins):
        if likely[at] > 0:
            most = max(most, likely[at] * ends[at].max())
    span, mass = np.empty(begins * instants, np.int64), np.empty(begins * instants)
    count, least = 0, most * UNLIKELY
    for at in range(begins):
        if likely[at] < least:
            continue
        for last in range(instants):
            value = likely[at] * ends[at, last]
            if value > least:
                span[count], mass[count] = at * instants + last, value
                count += 1
    if count > support:
        least = np.partition(mass[:count], count - support)[count - support]
        kept = np.flatnonzero(mass[:count] >= least)
    else:
        kept = np.arange(count)
    order = kept[np.argsort(-mass[kept], kind="mergesort")][:support]
    return span[order], mass[order]
