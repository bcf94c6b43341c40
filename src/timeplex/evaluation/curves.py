"""What pictures of time are drawn from. It can be kept as JSON and drawn again without a model, or torch."""

from dataclasses import dataclass

from timeplex.kb.dates import Granularity, Ints
from timeplex.kb.spans import Floats

Years = tuple[int, int]
"""First and last year of a window, both inclusive."""


@dataclass(frozen=True)
class Distances:
    """Mean distance of the embeddings of instants that are `gap` apart, over `pairs` pairs: arrays of shape (gaps,)."""

    gap: Ints
    distance: Floats
    pairs: Ints
    granularity: Granularity


@dataclass(frozen=True)
class Curve:
    """Probabilities of instants of a window, shape (m,) each; what is missing to 1 lies outside the window."""

    instants: Ints
    probability: Floats
    granularity: Granularity
