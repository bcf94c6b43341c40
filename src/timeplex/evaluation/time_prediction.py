"""When a fact held: from a model's scores of all instants to predicted spans.

Pr(t | s, r, o) is the softmax of φ(s, r, o, ·) over the timeline. Two decoders turn it into spans:

`Thresholds`, greedy coalescing (the paper): begin with the k-th most probable instant; as long as the span holds less
than θ_r of the probability, take in the neighbour that has more (the right one if both have the same). θ_r is fitted on
dev, by one of

    mean-mass   the mean probability that the gold spans of relation r hold (the published code)
    grid        the θ in 0, 0.01, … 0.99 with the best mean aeIOU of the first prediction (the paper's text)

`Durations`, the span with the highest expected aeIOU, which knows how long the facts of a relation last.
A model that is trained at an instant drawn from each span says where such an instant t lies. Each of the d spans of
duration d that hold t is taken to have probability Pr(d | r) / d; durations are those of the training facts of r. A
candidate span C is then worth

    E(C) = Σ_t Pr(t) g_r(t, C),    g_r(t, C) = Σ_d Pr(d | r) / d · Σ_{S ∋ t, |S| = d} aeIOU(S, C).

This is linear in Pr(t), and g_r depends only on |C| and on how far t is from the begin of C, so that all spans with one
of the durations of r are compared by one matrix product a duration. On dev of YAGO11k, taking t as the begin of S
instead of any instant of it lost 2.4 points of aeIOU.

Such products grow with the square of the timeline. On a long one (`MOST_CELLS`) the same sums are one convolution a
duration, on a grid of equally long cells: an instant each up to `MOST_GRID` of them (44 years by day), more beyond
that, so that neither time nor memory depends on how long the timeline is.

Only facts with both ends known can be judged; `both_ends_known` selects them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation.metrics import aeiou
from timeplex.evaluation.ranking import PlacedFacts
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
    decoders: Mapping[str, Decoder],
    *,
    top: int = 10,
    device: torch.device | None = None,
) -> dict[str, Spans]:
    """Predicted spans of each (s, r, o) by each decoder, best first: (n, min(top, instants)).

    The scorer is asked once; the spans of the queries are not read.
    """
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


DURATIONS = 64
"""How many durations stand for the distribution of a relation's durations."""

USUAL = 0.9
"""The share of a relation's durations that counts, the longest being left out.

Long ones are rare and often mistakes. On dev of YAGO11k 0.8, 0.9, 0.95 and 1 gave aeIOU 20.6, 20.6, 20.5 and 20.0.
"""

KEPT_BYTES = 128_000_000
"""The most memory that a decoder keeps for the next query."""


MOST_CELLS = 100_000_000
"""More products than these for one query (durations · instants²), and a grid takes their place. Of the benchmarks
WIKIDATA12k has most, 25 million."""

MOST_GAINS = 8_000_000
"""The same for what each query shares with the others (durations · calendar instants), 64 MB."""

MOST_GRID = 1 << 14
"""The most cells of a grid."""

GRID_DURATIONS = 32
"""On a grid so many durations stand for the distribution."""

ROW_BYTES = 1 << 20
"""Tables of this size stay in the processor's cache while all durations are tried."""

LEAST = 1e-9
"""What orders begins in one cell of a grid, far less than the difference of two values."""


@dataclass(frozen=True, eq=False)
class Durations:
    """The span with the highest expected aeIOU; `levels` are equally likely durations, (relations, DURATIONS).

    Candidates begin at an instant of the timeline, last as long as one of these durations or one instant, and end on
    the timeline or between two of its instants. All of them are compared. Time: 2 · n · instants² · durations products,
    or n · durations · cells · log cells on a grid.
    """

    levels: Ints
    _kept: dict[bytes, "_Worth | _Grid"] = field(default_factory=dict, init=False, repr=False)

    def spans(self, probability: Floats, r: Ints, timeline: Timeline, top: int) -> Spans:
        """The best span at each begin; of these the `top` best."""
        begins = np.empty((len(probability), min(top, len(timeline))), np.int64)
        ends = np.empty_like(begins)
        for relation in np.unique(r):
            rows = np.flatnonzero(r == relation)
            value, duration = self._worth(int(relation), timeline.instants).best(probability[rows])
            best = np.argsort(-value, axis=1, kind="stable")[:, :top]
            begins[rows] = timeline.instants[best]
            ends[rows] = begins[rows] + np.take_along_axis(duration, best, axis=1) - 1
        return begins, ends

    def _worth(self, relation: int, instants: Ints) -> "_Worth | _Grid":
        """What spans of a relation are worth; kept for the next query if it is not too large."""
        key = self.levels[relation].tobytes()  # relations whose facts last alike share it
        kept = self._kept.get(key)
        if kept is not None and np.array_equal(kept.instants, instants):
            return kept
        found = _worth(self.levels[relation], instants)
        self._kept.pop(key, None)
        if found.size + sum(other.size for other in self._kept.values()) <= KEPT_BYTES:
            self._kept[key] = found
        return found


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


def _worth(levels: Ints, instants: Ints) -> "_Worth | _Grid":
    """What spans are worth, each by itself, or on a grid if they are very many."""
    durations, extent = len(np.union1d([1], levels)), int(instants[-1] - instants[0])
    few = durations * len(instants) ** 2 <= MOST_CELLS and durations * (2 * extent + 1) <= MOST_GAINS
    return _Worth(levels, instants) if few else _Grid(levels, instants)


class _Worth:
    """What every span is worth to one instant, for the durations of one relation on one timeline."""

    def __init__(self, levels: Ints, instants: Ints) -> None:
        self.instants = instants
        self.durations = np.union1d([1], levels)  # one instant fits at every begin
        self._extent = int(instants[-1] - instants[0])
        self._gains = _gains(self.durations, levels, self._extent).astype(np.float32)
        whole = 4 * len(self.durations) * len(instants) ** 2
        self._parts = list(self._compute()) if whole <= BLOCK_BYTES else None
        self.size = self._gains.nbytes + (whole if self._parts is not None else 0)

    def best(self, probability: Floats) -> tuple[Floats, Ints]:
        """For each query and begin the highest expected aeIOU, and the duration that has it; both (n, instants)."""
        weights = probability.astype(np.float32)
        value = np.full(probability.shape, -1.0, np.float32)
        longest = np.ones(probability.shape, np.int64)
        for part, duration, worth in self._compute() if self._parts is None else self._parts:
            expected = weights @ worth
            better = expected > value[:, part]
            value[:, part][better] = expected[better]
            longest[:, part][better] = duration
        return value.astype(np.float64), longest

    def _compute(self) -> Iterator[tuple[slice, int, NDArray[np.float32]]]:
        """Some begins and a duration at a time: which begins, the duration, and the worth, (instants, begins)."""
        instants = self.instants
        width = max(1, BLOCK_BYTES // (8 * len(instants)))
        for start in range(0, len(instants), width):
            block = slice(start, start + width)
            away = instants[:, None] - instants[None, block] + self._extent
            for duration, gain in zip(self.durations.tolist(), self._gains, strict=True):
                fits = int(np.searchsorted(instants[block], instants[-1] - duration + 1, side="right"))
                yield slice(start, start + fits), duration, gain[away[:, :fits]]


class _Grid:
    """What spans of one relation are worth on a grid over a timeline: by convolutions, or products if instants are few.

    A cell is `width` instants long, the least number with at most `MOST_GRID` cells. Durations are rounded to cells;
    they are `GRID_DURATIONS` equally likely ones. Of the begins in one cell that one comes first whose span holds the
    most probability.
    """

    def __init__(self, levels: Ints, instants: Ints) -> None:
        self.instants = instants
        self.width = int(instants[-1] - instants[0]) // MOST_GRID + 1
        self._cell = (instants - instants[0]) // self.width
        self._cells = int(self._cell[-1]) + 1
        levels = np.sort(levels)[:: -(-len(levels) // GRID_DURATIONS)]
        self._levels = np.maximum((levels + self.width // 2) // self.width, 1)
        # Of the durations that are alike in cells the one in the middle stands for them.
        self._in_cells, first, alike = np.unique(self._levels, return_index=True, return_counts=True)
        self.durations = levels[first + (alike - 1) // 2]
        if self._in_cells[0] > 1:  # one instant fits at every begin
            self._in_cells, self.durations = np.append(1, self._in_cells), np.append(1, self.durations)
        few = len(self.durations) * len(instants) ** 2 <= MOST_CELLS and self.width > 1
        self._products = _Worth(self._levels, self._cell) if few else None
        self.size = self._products.size if self._products else 8 * (self._length // 2 + 1) * len(self.durations)

    @property
    def _length(self) -> int:
        """Of the transforms: gains from −cells + 1 to cells − 1 fit, and nothing comes round."""
        return 1 << (2 * self._cells - 1).bit_length()

    @cached_property
    def _spectra(self) -> Tensor:
        """The conjugate transforms of the gains, (durations, length / 2 + 1)."""
        extent, length = self._cells - 1, self._length
        gains = _gains(self._in_cells, self._levels, extent)
        table = np.zeros((len(gains), length), np.float32)
        table[:, : extent + 1] = gains[:, extent:]
        table[:, length - extent :] = gains[:, :extent]
        spectra: Tensor = torch.fft.rfft(torch.from_numpy(table))
        return spectra.conj()

    def best(self, probability: Floats) -> tuple[Floats, Ints]:
        """For each query and begin the highest expected aeIOU, and the duration that has it; both (n, instants)."""
        if self._products is not None:
            value, cells = self._products.best(probability)
            which = np.searchsorted(self._in_cells, cells)
        else:
            value, which = np.empty(probability.shape), np.empty(probability.shape, np.int64)
            rows = max(1, ROW_BYTES // (4 * self._length))
            for start in range(0, len(probability), rows):
                part = slice(start, start + rows)
                value[part], which[part] = self._convolved(probability[part])
        duration = np.minimum(self.durations[which], self.instants[-1] - self.instants + 1)
        return self._in_order(value, probability, duration), duration

    @torch.inference_mode()
    def _convolved(self, probability: Floats) -> tuple[Floats, Ints]:
        """The highest expected aeIOU at each begin, and which duration has it."""
        count = len(probability)
        table = np.zeros((count, self._cells), np.float32)
        places = np.arange(count)[:, None] * self._cells + self._cell
        table.ravel()[:] = np.bincount(places.ravel(), probability.ravel(), table.size)
        spectrum = torch.fft.rfft(torch.from_numpy(table), n=self._length)
        value = torch.full((count, self._length), -1.0)
        which = torch.zeros((count, self._length), dtype=torch.int16)
        room = self.instants[-1] - self.instants
        for number, (duration, worth) in enumerate(zip(self.durations.tolist(), self._spectra, strict=True)):
            expected = torch.fft.irfft(spectrum * worth, n=self._length)
            # Begins from which the span would end beyond the timeline are no candidates, as in `_Worth`.
            begins = int(np.searchsorted(-room, 1 - duration, side="right"))
            expected[:, self._cell[begins - 1] + 1 if begins else 0 :] = -2.0
            which.masked_fill_(expected > value, number)
            torch.maximum(value, expected, out=value)
        return value.numpy()[:, self._cell].astype(np.float64), which.numpy()[:, self._cell].astype(np.int64)

    def _in_order(self, value: Floats, probability: Floats, duration: Ints) -> Floats:
        """The values, a hair more for the begins of a cell whose spans hold more: (n, instants)."""
        if self.width == 1:
            return value
        stop = np.searchsorted(self.instants, self.instants + duration, side="left")
        up_to = np.pad(np.cumsum(probability, axis=1), ((0, 0), (1, 0)))
        held = np.take_along_axis(up_to, stop, axis=1) - up_to[:, :-1]
        return value + LEAST * held


def _gains(durations: Ints, levels: Ints, extent: int) -> Floats:
    """g(δ, m): what a span of duration m gains if the instant δ after its begin belongs to the fact.

    Shape (durations, 2 · extent + 1), for δ from −extent to extent: the mean aeIOU with the spans that hold the
    instant, for each duration d uniformly over its d places, and over d by the levels.
    """
    gains = np.zeros((len(durations), 2 * extent + 1))
    for d, count in zip(*np.unique(levels, return_counts=True), strict=True):
        begins = np.arange(-extent - d + 1, extent + 1)
        up_to = np.pad(np.cumsum(_values(durations, d, begins), axis=1), ((0, 0), (1, 0)))
        gains += count / len(levels) / d * (up_to[:, d:] - up_to[:, :-d])
    return gains


def _values(durations: Ints, d: int, begins: Ints) -> Floats:
    """aeIOU of [0, m − 1] and [b, b + d − 1] for durations m and consecutive begins b: (durations, begins).

    It has five parts by b: before and apart, overlapping, one inside the other, overlapping, after and apart.
    """
    values = np.empty((len(durations), len(begins)))
    for row, m in zip(values, durations.tolist(), strict=True):
        inside = min(0, m - d + 1), max(0, m - d + 1)
        cuts = np.clip(np.array([1 - d, *inside, m]) - begins[0], 0, len(begins))
        before, first, within, second, after = np.split(row, cuts)
        of = np.split(begins, cuts)
        before[:] = 1 / (m - of[0])
        first[:] = (of[1] + d) / (m - of[1])
        within[:] = min(m, d) / max(m, d)
        second[:] = (m - of[3]) / (of[3] + d)
        after[:] = 1 / (of[4] + d)
    return values
