"""The span with the highest expected aeIOU: a decoder that knows how long the facts of a relation last.

A model that is trained at an instant drawn from each span says
where such an instant t lies. Each of the d spans of duration d that hold t is taken to have probability Pr(d | r) / d;
durations are those of the training facts of r. A candidate span C is then worth

    E(C) = Σ_t Pr(t) g_r(t, C),    g_r(t, C) = Σ_d Pr(d | r) / d · Σ_{S ∋ t, |S| = d} aeIOU(S, C).

This is linear in Pr(t), and g_r depends only on |C| and on how far t is from the begin of C, so that all spans with one
of the durations of r are compared by one matrix product a duration. On dev of YAGO11k, taking t as the begin of S
instead of any instant of it lost 2.4 points of aeIOU.

Such products grow with the square of the timeline. On a long one (`MOST_CELLS`) the same sums are one convolution a
duration, on a grid of equally long cells: an instant each up to `MOST_GRID` of them (44 years by day), more beyond
that, so that neither time nor memory depends on how long the timeline is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.evaluation.time_prediction import BLOCK_BYTES, Spans, both_ends_known
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline
from timeplex.typing import Floats, Ints

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
