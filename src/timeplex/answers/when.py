"""When a fact held, on numbers: the probability of every instant, the most likely span, an interval for its begin."""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from torch import Tensor

from timeplex.answers.calibration_maps import LARGEST, CalibrationMap
from timeplex.answers.resolve import SpanPrediction
from timeplex.errors import InputError
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.time_prediction import (
    Decoder,
    Durations,
    GreedySpan,
    Rule,
    Thresholds,
    fit_durations,
    probabilities,
)
from timeplex.kb.facts import Facts
from timeplex.training.run import TrainedRun
from timeplex.typing import Bools, Floats, Ints

MODEL = "model"

MOST_FACTS = 1_000
"""So many dev facts are enough for a few weights; the tables of their scores are all in memory."""

STEPS = 100

Weights = Mapping[str, float]


class Weighted:
    """A run as a scorer of instants whose parts have weights; a part without one has weight 1."""

    def __init__(self, run: TrainedRun, weights: Weights) -> None:
        self._scorer = run.scorer
        self.weights = dict(weights)

    @property
    def predicts_times(self) -> bool:
        """Whether scores depend on time."""
        return self._scorer.predicts_times

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """Scores of all instants: (n, instants)."""
        if not self.weights:
            return self._scorer.times(s, r, o)
        parts = self.parts(s, r, o)
        return torch.stack([self.weights.get(name, 1.0) * part for name, part in parts.items()]).sum(0)

    def parts(self, s: Tensor, r: Tensor, o: Tensor) -> dict[str, Tensor]:
        """The scores of all instants by part, without weights: (n, instants) each."""
        return self._scorer.time_parts(s, r, o)


def fit_weights(run: TrainedRun, facts: Facts) -> dict[str, float]:
    """The weights under which the facts, at most MOST_FACTS of them, are likeliest."""
    facts = facts[:: max(1, -(-len(facts) // MOST_FACTS))]
    placed = PlacedFacts.of(facts, run.timeline)
    s, r, o, (first, last) = placed.tensors(next(run.model.parameters()).device)
    with torch.no_grad():
        parts = {name: part.double() for name, part in Weighted(run, {}).parts(s, r, o).items()}
    instants = torch.arange(len(run.timeline), device=s.device)
    inside = ((instants >= first[:, None]) & (instants <= last[:, None])).double()
    inside /= inside.sum(1, keepdim=True)
    logs = torch.zeros(len(parts), dtype=torch.double, device=s.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = torch.stack([log.exp() * part for log, part in zip(logs, parts.values(), strict=True)]).sum(0)
        unlikely = -(scores.log_softmax(1) * inside).sum() + (logs**2).sum() / 2
        unlikely.backward()  # type: ignore[no-untyped-call]
        return unlikely

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return dict(zip(parts, np.round(logs.detach().exp().cpu().numpy(), 4).tolist(), strict=True))


Shape = Literal["central", "grown"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

COVERAGE = 0.8
"""The share of cases in which the interval should hold the begin."""

CELLS = 4_000_000
"""So many numbers are in one table at a time."""

KEPT = 16_000_000
"""So many positions, and weights, are kept for the next facts; they take 256 MB."""

ROUNDING = 1e-12
"""What sums of probabilities may lack."""


class Begins:
    """Where facts begin, from where their instants lie.

    levels: equally likely durations of every relation, (relations, levels); instants: the timeline, (m,).
    """

    def __init__(self, levels: Ints, instants: Ints) -> None:
        self.instants = instants
        self._levels = levels
        kept = KEPT // max(1, levels.shape[1] * len(instants))
        self._of_relation = lru_cache(maxsize=min(max(kept, 1), 256))(self._durations)

    def probabilities(self, probability: Floats, r: Ints) -> Floats:
        """Pr(b) from Pr(t): (n, instants) both; r: (n,)."""
        begins = np.empty_like(probability)
        for relation in np.unique(r):
            latest, share = self._of_relation(int(relation))
            rows = np.flatnonzero(r == relation)
            for part in np.array_split(rows, -(-len(rows) * latest.size // CELLS)):
                # Pr(t) over the begins that t may have, for each duration; then for each begin what lies from it on.
                up_to = np.cumsum(probability[part][:, None] * share, axis=2)
                until = np.take_along_axis(up_to, np.broadcast_to(latest, up_to.shape), axis=2)
                before = np.pad(up_to[:, :, :-1], ((0, 0), (0, 0), (1, 0)))
                begins[part] = (until - before).sum(1)
        return begins

    def _durations(self, relation: int) -> tuple[Ints, Floats]:
        """For each duration and begin the position of the last instant; for each instant its weight: (durations, m)."""
        durations, count = np.unique(self._levels[relation], return_counts=True)
        earliest = np.searchsorted(self.instants, self.instants[None, :] - durations[:, None] + 1)
        latest = np.searchsorted(self.instants, self.instants[None, :] + durations[:, None] - 1, side="right") - 1
        share = (count / count.sum())[:, None] / (np.arange(len(self.instants)) - earliest + 1)
        return latest, share


def interval(shape: Shape, level: float | Floats, begins: Floats) -> tuple[Ints, Ints]:
    """First and last position of the interval at a level, (n,) each, from Pr(b), (n, instants); wider if it is higher.

    central: from where the probability up to there exceeds (1 − level) / 2 to where less than that is left;
    grown: until it holds more than the level.
    """
    if shape == "grown":
        growth = GreedySpan(begins, begins.argmax(1)[:, None])
        growth.until(np.broadcast_to(np.nextafter(level, 2), len(begins)))
        return growth.first, growth.last
    tail = np.broadcast_to((1 - level) / 2 - ROUNDING, len(begins))[:, None]
    up_to = np.cumsum(begins, axis=1)
    last = begins.shape[1] - 1
    low = np.minimum((up_to < tail).sum(1), last)
    high = np.minimum((up_to < 1 - tail).sum(1), last)
    return low, np.maximum(low, high)


def needed(shape: Shape, begins: Floats, position: Ints) -> Floats:
    """The level at which the interval comes to hold the position: (n,)."""
    if shape == "grown":
        return GreedySpan(begins, begins.argmax(1)[:, None]).until_holding(position)
    rows = np.arange(len(begins))
    up_to = np.cumsum(begins, axis=1)
    before = np.where(position > 0, up_to[rows, position - 1], 0.0)
    # tail ≤ what lies up to the position, and 1 − tail > what lies before it
    return np.asarray(np.maximum(1 - 2 * np.minimum(up_to[rows, position], 1 - before), 0.0))


def conformal_level(levels: Floats, coverage: float = COVERAGE) -> float:
    """The level that is enough for the ⌈(n + 1) · coverage⌉-th of n cases; 1, all there is, if n is too small."""
    place = int(np.ceil((len(levels) + 1) * coverage))
    return float(np.sort(levels)[place - 1]) if place <= len(levels) else 1.0


def holds(found: tuple[Ints, Ints], position: Ints) -> Bools:
    """Whether intervals hold positions."""
    return (found[0] <= position) & (position <= found[1])


EXPECTED = "expected-aeiou"
"""The decoder that needs no dev facts."""


class SpanDecoding(BaseModel):
    """How spans, their probabilities and intervals are made of Pr(t); the defaults need no dev facts.

    weights   what the model and the gadgets count (`weights`); none: their plain sum
    decoder   how a span is chosen (`evaluation.time_prediction`); `theta` by relation if it has thresholds
    overlaps  from the probability that the span holds to that of overlapping the true one; groups are relations
    shape     of the interval for the begin, and the level that it is taken at
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: dict[str, FiniteFloat] = {}
    decoder: Rule | str = Field(EXPECTED, pattern="^(mean-mass|grid|expected-aeiou)$")
    theta: tuple[FiniteFloat, ...] = ()
    overlaps: CalibrationMap = CalibrationMap()
    shape: Shape = "grown"
    level: FiniteFloat = COVERAGE

    def fits(self, relations: int) -> bool:
        """Whether it can be used with so many relations, which a stored one need not."""
        return (
            all(0 < weight <= LARGEST for weight in self.weights.values())
            and (self.decoder == EXPECTED or len(self.theta) == relations)
            and self.overlaps.fits(relations)
            and 0 <= self.level <= 1
        )


class Dating:
    """A trained run as something that dates facts, its parts weighted if weights are given."""

    def __init__(self, run: TrainedRun, weights: Weights | None = None) -> None:
        self.run = run
        self.scorer = Weighted(run, weights or {})
        self.device = next(run.model.parameters()).device

    def weighed(self, weights: Weights) -> "Dating":
        """The same with other weights; what is known of durations is shared, because it is slow to make."""
        other = Dating(self.run, weights)
        other.durations, other.begins = self.durations, self.begins
        return other

    @cached_property
    def durations(self) -> Durations:
        """How long the training facts of each relation last."""
        return fit_durations(self.run.kb.train, relations=len(self.run.kb.relations))

    @cached_property
    def begins(self) -> Begins:
        """From instants of facts to their begins."""
        return Begins(self.durations.levels, self.run.timeline.instants)

    def blocks(self, s: Ints, r: Ints, o: Ints) -> Iterator[tuple[slice, Floats]]:
        """Pr(t | s, r, o) for some facts at a time: which, and a table (facts, instants)."""
        if not self.scorer.predicts_times:
            raise InputError(
                f"{self.run.recipe.title} scores a fact alike at all times, so that it cannot say when.",
                "Ask a model that knows of time, such as timeplex-base.",
            )
        s, r, o = (np.asarray(column, np.int64) for column in (s, r, o))
        nowhen = np.zeros(len(s), np.int64)
        yield from probabilities(self.scorer, PlacedFacts(s, r, o, nowhen, nowhen), self.run.timeline, self.device)

    def probabilities(self, s: Ints, r: Ints, o: Ints) -> Floats:
        """Pr(t | s, r, o) over the timeline: (n, instants)."""
        parts = [table for _, table in self.blocks(s, r, o)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.run.timeline)))

    def decoder(self, way: SpanDecoding) -> Decoder:
        """What turns Pr(t) into spans."""
        if way.decoder == EXPECTED:
            return self.durations
        return Thresholds("grid" if way.decoder == "grid" else "mean-mass", np.array(way.theta))

    def predict(self, s: Ints, r: Ints, o: Ints, way: SpanDecoding) -> SpanPrediction:
        """The most likely span of each fact, its probability and the interval for its begin; memory is bounded."""
        r = np.asarray(r, np.int64)
        whole = [np.empty(len(r), np.int64) for _ in range(4)]
        mass = np.empty(len(r))
        for part, table in self.blocks(s, r, o):
            found = self.spans(table, r[part], self.decoder(way))
            mass[part] = held(table, self.run.timeline.positions(found))
            low, high = interval(way.shape, way.level, self.begins.probabilities(table, r[part]))
            instants = self.run.timeline.instants
            for column, values in zip(whole, (*found, instants[low], instants[high]), strict=True):
                column[part] = values
        begin, end, low, high = whole
        return SpanPrediction(begin, end, way.overlaps(mass, r), low, high)

    def likeliest(self, s: Ints, r: Ints, o: Ints, way: SpanDecoding) -> tuple[Ints, Ints]:
        """Begin and end of the most likely span of each fact, as `predict` has them, without what is dear about it."""
        r = np.asarray(r, np.int64)
        begin, end = np.empty(len(r), np.int64), np.empty(len(r), np.int64)
        for part, table in self.blocks(s, r, o):
            begin[part], end[part] = self.spans(table, r[part], self.decoder(way))
        return begin, end

    def spans(self, table: Floats, r: Ints, decoder: Decoder) -> tuple[Ints, Ints]:
        """The best span of each fact by a table of probabilities: (n,) each."""
        begin, end = decoder.spans(table, r, self.run.timeline, 1)
        return begin[:, 0], end[:, 0]


def held(table: Floats, positions: tuple[Ints, Ints]) -> Floats:
    """The probability from one position to another of each row, 0 if the second comes before the first: (n,)."""
    first, last = positions
    rows = np.arange(len(table))
    up_to = np.pad(np.cumsum(table, axis=1), ((0, 0), (1, 0)))
    total: Floats = up_to[rows, np.maximum(last + 1, first)] - up_to[rows, first]
    return np.clip(total, 0.0, 1.0)
