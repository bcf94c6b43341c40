"""When a fact held: from a model's scores of all instants to predicted spans.

Pr(t | s, r, o) is the softmax of φ(s, r, o, ·) over the timeline. Two decoders turn it into spans:

`Thresholds`, greedy coalescing (the paper): begin with the k-th most probable instant; as long as the span holds less
than θ_r of the probability, take in the neighbour that has more (the right one if both have the same). θ_r is fitted on
dev, by one of

    mean-mass   the mean probability that the gold spans of relation r hold (the published code)
    grid        the θ in 0, 0.01, … 0.99 with the best mean aeIOU of the first prediction (the paper's text)

`expected_aeiou.Durations`, the span with the highest expected aeIOU (see there).

Only facts with both ends known can be judged; `both_ends_known` selects them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation.metrics import aeiou
from timeplex.evaluation.queries import PlacedFacts
from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline
from timeplex.typing import Bools, Floats, Ints


class GreedySpan:
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
        growing = np.flatnonzero(self.mass < theta)
        while True:
            growing = self._grow(growing)
            if len(growing) == 0:
                return
            growing = growing[self.mass[growing] < theta[growing]]

    def until_holding(self, position: Ints) -> Floats:
        """Grow each span until it holds its position; what it held before that step, 0 if none was needed: (n · k,)."""
        before = np.zeros(len(self.mass))
        growing = np.arange(len(self.mass))
        while True:
            growing = growing[(self.first[growing] > position[growing]) | (self.last[growing] < position[growing])]
            before[growing] = self.mass[growing]
            growing = self._grow(growing)
            if len(growing) == 0:
                return before

    def _grow(self, growing: Ints) -> Ints:
        """One step of the given spans; those that could grow."""
        length = self._edged.shape[1] - 2
        growing = growing[(self.first[growing] > 0) | (self.last[growing] < length - 1)]
        row = self._row[growing]
        left = self._edged[row, self.first[growing]]
        right = self._edged[row, self.last[growing] + 2]
        to_left = left > right
        self.first[growing] -= to_left
        self.last[growing] += ~to_left
        self.mass[growing] += np.maximum(left, right)
        return growing


Rule = Literal["mean-mass", "grid"]
RULES: tuple[Rule, ...] = get_args(Rule)
Spans = tuple[Ints, Ints]
"""Begins and ends in calendar instants, both inclusive, shape (n, predictions) each."""

GRID = np.arange(100) / 100
"""The θ that `grid` tries."""

BLOCK_BYTES = 64_000_000
"""The most memory that one table of probabilities, or of gains, may take; up to eight are there at a time."""

SCORES_AT_ONCE = 1 << 17
"""How many scores are asked of a model at once; some models hold a whole embedding for each meanwhile."""


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
    return predict_by_each(scorer, queries, timeline, {"it": decoder}, top=top, device=device)["it"]


def predict_by_each(
    scorer: TimeScorer,
    queries: PlacedFacts,
    timeline: Timeline,
    decoders: Mapping[str, Decoder],
    *,
    top: int = 10,
    device: torch.device | None = None,
) -> dict[str, Spans]:
    """`predict_times` by several decoders, for which the scorer is asked only once."""
    shape = (len(queries), min(top, len(timeline)))
    found = {name: (np.empty(shape, np.int64), np.empty(shape, np.int64)) for name in decoders}
    for block, probability in probabilities(scorer, queries, timeline, device):
        for name, decoder in decoders.items():
            begins, ends = found[name]
            begins[block], ends[block] = decoder.spans(probability, queries.r[block], timeline, top)
    return found


def both_ends_known(facts: Facts) -> Facts:
    """The facts that time prediction is judged by."""
    open_begin, open_end = spans.is_open(facts.span)
    return facts[~open_begin & ~open_end]


@torch.inference_mode()
def probabilities(
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
        growth = GreedySpan(probability, best)
        growth.until(np.repeat(self.theta[r], best.shape[1]))
        first, last = growth.first.reshape(best.shape), growth.last.reshape(best.shape)
        return timeline.instants[first], timeline.instants[last]


def fit_thresholds(
    scorer: TimeScorer,
    facts: Facts,
    timeline: Timeline,
    rule: Rule,
    *,
    relations: int,
    device: torch.device | None = None,
) -> Thresholds:
    """The θ of every relation by those dev facts that have both ends."""
    return dev_values(scorer, facts, timeline, [rule], device=device).thresholds(rule, relations)


@dataclass(frozen=True, eq=False)
class DevValues:
    """What each dev fact with both ends says of θ, by rule: its relation, (n,), and values, (n, 1) or (n, grid)."""

    r: Ints
    values: Mapping[Rule, Floats]

    def thresholds(self, rule: Rule, relations: int, rows: Bools | None = None) -> Thresholds:
        """The θ of every relation by all dev facts, or by those of the rows.

        A relation without such a fact gets the mean of the other θ (mean-mass), or the θ that is best over all (grid).
        """
        rows = np.ones(len(self.r), np.bool_) if rows is None else rows
        values = self.values[rule][rows]
        relation, where = np.unique(self.r[rows], return_inverse=True)
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


def dev_values(
    scorer: TimeScorer,
    facts: Facts,
    timeline: Timeline,
    rules: Sequence[Rule] = RULES,
    *,
    device: torch.device | None = None,
) -> DevValues:
    """Ask the scorer once for all dev facts with both ends."""
    facts = both_ends_known(facts)
    if len(facts) == 0:
        raise InputError(
            "No dev fact has both a begin and an end, so that no threshold can be fitted.",
            "Give such facts in the valid split, or predict by expected aeIOU, which needs none.",
        )
    measures = {"mean-mass": _gold_mass, "grid": _grid_aeiou}
    found: dict[Rule, list[Floats]] = {rule: [] for rule in rules}
    for block, probability in probabilities(scorer, PlacedFacts.of(facts, timeline), timeline, device):
        for rule in rules:
            found[rule].append(measures[rule](probability, facts[block], timeline))
    return DevValues(facts.r.astype(np.int64), {rule: np.concatenate(parts) for rule, parts in found.items()})


def _gold_mass(probability: Floats, facts: Facts, timeline: Timeline) -> Floats:
    """The probability that each gold span holds, (n, 1); 0 if no instant of it is on the timeline."""
    first, last = timeline.positions(facts.span)
    up_to = np.pad(np.cumsum(probability, axis=1), ((0, 0), (1, 0)))
    row = np.arange(len(facts))
    mass: Floats = up_to[row, np.maximum(last + 1, first)] - up_to[row, first]
    return mass[:, None]


def _grid_aeiou(probability: Floats, facts: Facts, timeline: Timeline) -> Floats:
    """aeIOU of the first prediction at each θ of the grid, (n, grid)."""
    growth = GreedySpan(probability, probability.argmax(1)[:, None])
    values = np.empty((len(facts), len(GRID)))
    for column, theta in enumerate(GRID):
        growth.until(np.full(len(facts), theta))
        values[:, column] = aeiou(facts.span, (timeline.instants[growth.first], timeline.instants[growth.last]))
    return values
