"""An interval that holds the true begin of a fact in four of five cases.

A model says where an instant of a fact lies, not where it begins. As in `evaluation.expected_aeiou`, each of the d
begins that a fact of duration d with that instant may have is equally likely, and durations are those of the training
facts of its relation:

    Pr(b) = Σ_t Pr(t) Σ_d Pr(d | r) [t − d < b ≤ t] / #{begins on the timeline in (t − d, t]}.

Two kinds of intervals that grow with a level are taken from Pr(b): `central` leaves out as much on either side, `grown`
goes from the likeliest begin to the likelier side. How far is decided by dev facts (split conformal prediction): the
level at which the interval held the true begin in the wanted share of them. This holds for new facts that are drawn
as the dev facts were, however wrong the model is; a bad one has wide intervals.
"""

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from timeplex.evaluation.growth import Growth
from timeplex.kb.dates import Ints
from timeplex.kb.spans import Floats

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
        growth = Growth(begins, begins.argmax(1)[:, None])
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
        return Growth(begins, begins.argmax(1)[:, None]).until_holding(position)
    rows = np.arange(len(begins))
    up_to = np.cumsum(begins, axis=1)
    before = np.where(position > 0, up_to[rows, position - 1], 0.0)
    # tail ≤ what lies up to the position, and 1 − tail > what lies before it
    return np.asarray(np.maximum(1 - 2 * np.minimum(up_to[rows, position], 1 - before), 0.0))


def conformal_level(levels: Floats, coverage: float = COVERAGE) -> float:
    """The level that is enough for the ⌈(n + 1) · coverage⌉-th of n cases; 1, all there is, if n is too small."""
    place = int(np.ceil((len(levels) + 1) * coverage))
    return float(np.sort(levels)[place - 1]) if place <= len(levels) else 1.0


def holds(found: tuple[Ints, Ints], position: Ints) -> NDArray[np.bool_]:
    """Whether intervals hold positions."""
    return (found[0] <= position) & (position <= found[1])
