"""When a fact held: from a model's scores of all instants to predicted spans.

Pr(t | s, r, o) is the softmax of φ(s, r, o, ·) over the timeline. Two decoders turn it into spans:

`Thresholds`, greedy coalescing (the paper): begin with the k-th most probable instant; as long as the span holds less
than θ_r of the probability, take in the neighbour that has more (the right one if both have the same). θ_r is fitted on
dev, by one of

    mean-mass   the mean probability that the gold spans of relation r hold (the published code)
    grid        the θ in 0, 0.01, … 0.99 with the best mean aeIOU of the first prediction (the paper's text)

`Durations`, the span with the highest expected aeIOU. A model that is trained at an instant drawn from each span says
where such an instant t lies. Each of the d spans of duration d that hold t is taken to have probability Pr(d | r) / d;
durations are those of the training facts of r. A candidate span C is then worth

    E(C) = Σ_t Pr(t) g_r(t, C),    g_r(t, C) = Σ_d Pr(d | r) / d · Σ_{S ∋ t, |S| = d} aeIOU(S, C).

This is linear in Pr(t), and g_r depends only on |C| and on how far t is from the begin of C, so that all spans with one
of the durations of r are compared by one matrix product a duration. On dev of YAGO11k, taking t as the begin of S
instead of any instant of it lost 2.4 points of aeIOU.

Only facts with both ends known can be judged; `both_ends_known` selects them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation.queries import PlacedFacts
from timeplex.evaluation.time_metrics import aeiou
from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.kb.names import Names
from timeplex.kb.spans import Floats, Ints
from timeplex.kb.timeline import Timeline

Rule = Literal["mean-mass", "grid"]
Spans = tuple[Ints, Ints]
"""Begins and ends in calendar instants, both inclusive, shape (n, predictions) each."""

GRID = np.arange(100) / 100
"""The θ that `grid` tries."""

BLOCK_BYTES = 64_000_000
"""The most memory that one table of probabilities, or of gains, may take; up to eight are there at a time."""

SCORES_AT_ONCE = 1 << 17
"""How many scores are asked of a model at once; some models hold a whole embedding for each meanwhile."""

DURATIONS = 64
"""How many durations stand for the distribution of a relation's durations."""

USUAL = 0.9
"""The share of a relation's durations that counts, the longest being left out.

Long ones are rare and often mistakes. On dev of YAGO11k 0.8, 0.9, 0.95 and 1 gave aeIOU 20.6, 20.6, 20.5 and 20.0.
"""


class TimeScorer(Protocol):
    """Scores of all instants, one row a query; higher is likelier."""

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """(n,) in, (n, instants) out."""
        ...


class Decoder(Protocol):
    """A way from probabilities of instants to spans."""

    def spans(self, probability: Floats, r: Ints, timeline: Timeline, top: int) -> Spans:
        """The `top` best spans of each query, best first.

        probability: (n, instants), r: (n,); result: (n, min(top, instants)).
        """
        ...


def predict_times(
    scorer: TimeScorer,
    queries: PlacedFacts,
    timeline: Timeline,
    decoder: Decoder,
    *,
    top: int = 10,
    device: torch.device | None = None,
) -> Spans:
    """Predicted spans of each (s, r, o), best first: (n, min(top, instants)). The spans of the queries are not read."""
    begins = np.empty((len(queries), min(top, len(timeline))), np.int64)
    ends = np.empty_like(begins)
    for block, probability in _probabilities(scorer, queries, timeline, device):
        begins[block], ends[block] = decoder.spans(probability, queries.r[block], timeline, top)
    return begins, ends


def both_ends_known(facts: Facts) -> Facts:
    """The facts that time prediction is judged by."""
    open_begin, open_end = spans.is_open(facts.span)
    return facts[~open_begin & ~open_end]


@torch.no_grad()
def _probabilities(
    scorer: TimeScorer, queries: PlacedFacts, timeline: Timeline, device: torch.device | None
) -> Iterator[tuple[slice, Floats]]:
    """Pr(t | s, r, o), some queries at a time: which, and a table (queries, instants)."""
    rows = max(1, BLOCK_BYTES // (8 * len(timeline)))
    step = max(1, SCORES_AT_ONCE // len(timeline))
    for start in range(0, len(queries), rows):
        stop = min(start + rows, len(queries))
        probability = np.empty((stop - start, len(timeline)))
        for low in range(start, stop, step):
            s, r, o, _ = queries.rows(low, min(low + step, stop)).tensors(device or torch.device("cpu"))
            scores = scorer.times(s, r, o).double()
            probability[low - start : low - start + len(s)] = scores.softmax(1).cpu().numpy()
        yield slice(start, stop), probability


# Greedy coalescing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Greedy coalescing until a span holds the θ of its relation; `theta` has shape (relations,)."""

    rule: Rule
    theta: Floats

    def spans(self, probability: Floats, r: Ints, timeline: Timeline, top: int) -> Spans:
        """The k-th span is grown from the k-th most probable instant (the earlier one if two are equal)."""
        best = np.argsort(-probability, axis=1, kind="stable")[:, :top]
        growth = _Growth(probability, best)
        growth.until(np.repeat(self.theta[r], best.shape[1]))
        first, last = growth.first.reshape(best.shape), growth.last.reshape(best.shape)
        return timeline.instants[first], timeline.instants[last]

    def to_dict(self, relations: Names) -> dict[str, Any]:
        """As plain values for JSON, by the names of the relations."""
        return {"rule": self.rule, "theta": dict(zip(relations, self.theta.tolist(), strict=True))}

    @classmethod
    def from_dict(cls, values: dict[str, Any], relations: Names) -> "Thresholds":
        """What `to_dict` wrote."""
        missing = [name for name in relations if name not in values["theta"]]
        if missing:
            raise InputError(
                f"There is no threshold for the relation {missing[0]!r}.", "Fit the thresholds on this KB's dev facts."
            )
        return cls(values["rule"], np.array([values["theta"][name] for name in relations], np.float64))


class _Growth:
    """Spans that grow over a table of probabilities, all at once.

    The way a span grows does not depend on θ, which only says where it stops. So a span that has reached one θ can go
    on to a higher one.
    """

    def __init__(self, probability: Floats, start: Ints) -> None:
        """`start`: positions to begin at, (n, k); the spans are kept as n · k rows."""
        # Beyond the edges lies less than nothing, so that no span grows there while it has another neighbour.
        self._edged = np.pad(probability, ((0, 0), (1, 1)), constant_values=-1.0)
        self._row = np.repeat(np.arange(len(start)), start.shape[1])
        self.first = start.ravel().copy()
        self.last = self.first.copy()
        self.mass = self._edged[self._row, self.first + 1]

    def until(self, theta: Floats) -> None:
        """Grow each span until it holds its θ or all of the timeline; theta: (n · k,)."""
        length = self._edged.shape[1] - 2
        growing = np.flatnonzero(self.mass < theta)
        while True:
            growing = growing[(self.first[growing] > 0) | (self.last[growing] < length - 1)]
            if len(growing) == 0:
                return
            row = self._row[growing]
            left = self._edged[row, self.first[growing]]
            right = self._edged[row, self.last[growing] + 2]
            to_left = left > right
            self.first[growing] -= to_left
            self.last[growing] += ~to_left
            self.mass[growing] += np.maximum(left, right)
            growing = growing[self.mass[growing] < theta[growing]]


def fit_thresholds(
    scorer: TimeScorer,
    facts: Facts,
    timeline: Timeline,
    rule: Rule,
    *,
    relations: int,
    device: torch.device | None = None,
) -> Thresholds:
    """The θ of every relation by those dev facts that have both ends.

    A relation without such a fact gets the mean of the other θ (mean-mass), or the θ that is best over all (grid).
    """
    facts = both_ends_known(facts)
    if len(facts) == 0:
        raise InputError(
            "No dev fact has both a begin and an end, so that no threshold can be fitted.",
            "Give such facts in the valid split, or predict by expected aeIOU, which needs none.",
        )
    measure = _gold_mass if rule == "mean-mass" else _grid_aeiou
    values = np.concatenate(
        [
            measure(probability, facts[block], timeline)
            for block, probability in _probabilities(scorer, PlacedFacts.of(facts, timeline), timeline, device)
        ]
    )
    relation, where = np.unique(facts.r, return_inverse=True)
    means = np.zeros((len(relation), values.shape[1]))
    np.add.at(means, where, values)
    means /= np.bincount(where)[:, None]
    if rule == "mean-mass":
        fitted = means[:, 0]
        otherwise = float(fitted.mean())
    else:
        fitted = GRID[means.argmax(1)]
        otherwise = float(GRID[values.mean(0).argmax()])
    theta = np.full(relations, otherwise)
    theta[relation] = fitted
    return Thresholds(rule, theta)


def _gold_mass(probability: Floats, facts: Facts, timeline: Timeline) -> Floats:
    """The probability that each gold span holds, (n, 1); 0 if no instant of it is on the timeline."""
    first, last = timeline.positions(facts.span)
    up_to = np.pad(np.cumsum(probability, axis=1), ((0, 0), (1, 0)))
    row = np.arange(len(facts))
    mass: Floats = up_to[row, np.maximum(last + 1, first)] - up_to[row, first]
    return mass[:, None]


def _grid_aeiou(probability: Floats, facts: Facts, timeline: Timeline) -> Floats:
    """aeIOU of the first prediction at each θ of the grid, (n, grid)."""
    growth = _Growth(probability, probability.argmax(1)[:, None])
    values = np.empty((len(facts), len(GRID)))
    for column, theta in enumerate(GRID):
        growth.until(np.full(len(facts), theta))
        values[:, column] = aeiou(facts.span, (timeline.instants[growth.first], timeline.instants[growth.last]))
    return values


# Expected aeIOU -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Durations:
    """The span with the highest expected aeIOU; `levels` are equally likely durations, (relations, DURATIONS).

    Candidates begin at an instant of the timeline, last as long as one of these durations or one instant, and end on
    the timeline or between two of its instants. All of them are compared. Time: 2 · n · instants² · durations products.
    """

    levels: Ints

    def spans(self, probability: Floats, r: Ints, timeline: Timeline, top: int) -> Spans:
        """The best span at each begin; of these the `top` best."""
        begins = np.empty((len(probability), min(top, len(timeline))), np.int64)
        ends = np.empty_like(begins)
        for relation in np.unique(r):
            rows = np.flatnonzero(r == relation)
            value, duration = _best_durations(probability[rows], self.levels[relation], timeline.instants)
            best = np.argsort(-value, axis=1, kind="stable")[:, :top]
            begins[rows] = timeline.instants[best]
            ends[rows] = begins[rows] + np.take_along_axis(duration, best, axis=1) - 1
        return begins, ends


def fit_durations(facts: Facts, *, relations: int) -> Durations:
    """Durations of every relation by those training facts that have both ends.

    Pr(d | r) = (facts of r that last d + Pr(d)) / (facts of r + 1), where Pr(d) is the share of all facts, one instant
    if there are none. `levels` are the quantiles in the middle of DURATIONS equal parts of the first `USUAL` of it.
    """
    facts = both_ends_known(facts)
    lasting = facts.end.astype(np.int64) - facts.begin + 1
    durations, which = np.unique(lasting if len(facts) else np.ones(1, np.int64), return_inverse=True)
    overall = np.bincount(which) / len(which)
    wanted = USUAL * (np.arange(DURATIONS) + 0.5) / DURATIONS
    levels = np.empty((relations, DURATIONS), np.int64)
    for relation in range(relations):
        counts = overall + np.bincount(which[: len(facts)][facts.r == relation], minlength=len(durations))
        levels[relation] = durations[np.searchsorted(np.cumsum(counts) / counts.sum(), wanted)]
    return Durations(levels)


def _best_durations(probability: Floats, levels: Ints, instants: Ints) -> tuple[Floats, Ints]:
    """For each query and begin the highest expected aeIOU, and the duration that has it; both (n, instants)."""
    durations = np.union1d([1], levels)  # one instant fits at every begin
    extent = int(instants[-1] - instants[0])
    gains = _gains(durations, levels, extent).astype(np.float32)
    weights = probability.astype(np.float32)
    value = np.full(probability.shape, -1.0, np.float32)
    longest = np.ones(probability.shape, np.int64)
    width = max(1, BLOCK_BYTES // (8 * len(instants)))
    for start in range(0, len(instants), width):
        block = slice(start, start + width)
        away = instants[:, None] - instants[None, block] + extent
        for duration, gain in zip(durations, gains, strict=True):
            fits = int(np.searchsorted(instants[block], instants[-1] - duration + 1, side="right"))
            expected = weights @ gain[away[:, :fits]]
            part = slice(start, start + fits)
            better = expected > value[:, part]
            value[:, part][better] = expected[better]
            longest[:, part][better] = duration
    return value.astype(np.float64), longest


def _gains(durations: Ints, levels: Ints, extent: int) -> Floats:
    """g(δ, m): what a span of duration m gains if the instant δ after its begin belongs to the fact.

    Shape (durations, 2 · extent + 1), for δ from −extent to extent: the mean aeIOU with the spans that hold the
    instant, for each duration d uniformly over its d places, and over d by the levels.
    """
    gains = np.zeros((len(durations), 2 * extent + 1))
    for d, count in zip(*np.unique(levels, return_counts=True), strict=True):
        begins = np.arange(-extent - d + 1, extent + 1)
        values = aeiou((np.zeros((len(durations), 1), np.int64), durations[:, None] - 1), (begins, begins + d - 1))
        up_to = np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))
        gains += count / len(levels) / d * (up_to[:, d:] - up_to[:, :-d])
    return gains
