"""When a fact held, on numbers: the probability of every instant, the most likely span, an interval for its begin."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from timeplex.errors import InputError
from timeplex.evaluation.expected_aeiou import Durations, fit_durations
from timeplex.evaluation.queries import PlacedFacts
from timeplex.evaluation.time_prediction import Decoder, Rule, Thresholds, probabilities
from timeplex.inference.intervals import COVERAGE, Begins, Shape, interval
from timeplex.inference.maps import LARGEST, Map
from timeplex.inference.weights import Weighted, Weights
from timeplex.kb.dates import Ints
from timeplex.kb.spans import Floats
from timeplex.training.run import TrainedRun

EXPECTED = "expected-aeiou"
"""The decoder that needs no dev facts."""


class Way(BaseModel):
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
    overlaps: Map = Map()
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


@dataclass(frozen=True)
class Dated:
    """Predicted spans, (n,) each; begin, end, low and high are calendar instants.

    mass         the probability that the model gives the span's instants
    probability  that the span overlaps the true one
    low, high    the interval that holds the true begin in 80 % of all cases
    """

    begin: Ints
    end: Ints
    mass: Floats
    probability: Floats
    low: Ints
    high: Ints


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

    def decoder(self, way: Way) -> Decoder:
        """What turns Pr(t) into spans."""
        if way.decoder == EXPECTED:
            return self.durations
        return Thresholds("grid" if way.decoder == "grid" else "mean-mass", np.array(way.theta))

    def predict(self, s: Ints, r: Ints, o: Ints, way: Way) -> Dated:
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
        return Dated(begin, end, mass, way.overlaps(mass, r), low, high)

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
