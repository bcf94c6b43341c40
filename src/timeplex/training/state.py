"""Where a training stands, and what is told of it."""

import math
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError

from timeplex.stored import Record


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """Training was stopped by Ctrl-C or another signal, after a checkpoint."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by signal {number}")
        self.code = 128 + number
        """The exit code that says so."""


def _none_or_all(figures: dict[str, float]) -> dict[str, float]:
    if figures and "mrr" not in figures:
        raise ValueError("figures without MRR")
    return figures


Dev = Annotated[dict[str, FiniteFloat], AfterValidator(_none_or_all)]
"""Figures on dev; none where there are no dev facts."""

Seconds = Annotated[FiniteFloat, Field(ge=0)]
Precision = Literal["float32", "bfloat16"]


class Epoch(Record):
    """A line of the trace."""

    epoch: Annotated[int, Field(ge=1)]
    step: NonNegativeInt
    loss: FiniteFloat
    lr: Annotated[FiniteFloat, Field(gt=0)]
    seconds: Seconds
    dev: Dev = Field(default_factory=dict)


class Gadgets(Record):
    """What metrics.json says of phase 2."""

    base_dev: Dev
    dev: Dev
    weights: dict[str, FiniteFloat]
    seconds: Seconds


class Metrics(Record):
    """What metrics.json says."""

    dev: Dev
    protocol: str
    best_epoch: NonNegativeInt
    epochs: NonNegativeInt
    seconds: Seconds
    precision: Precision
    parameters: NonNegativeInt
    machine: dict[str, Any]
    phase2: Gadgets | None = None


@dataclass
class State:
    """Where training stands; with the tables and the optimiser's sums it is all that a resume needs."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    learning_rate: float = 0.0
    best: float | None = None
    best_epoch: int = -1
    looks_since_best: int = 0
    looks_since_lowered: int = 0
    seconds: float = 0.0
    precision: str = "float32"
    precision_reason: str = ""
    diverged: str = ""  # what was found when training diverged, which ends it
    trace: list[dict[str, Any]] = field(default_factory=list)

    def is_possible(self, epochs: int, batches: int, learning_rate: float) -> bool:
        """Whether a training of at most so many epochs of batches, by a learning rate that only falls, can be here."""
        counts = (self.step, self.epoch, self.batch, self.looks_since_best, self.looks_since_lowered)
        return (
            min(counts) >= 0
            and self.epoch <= epochs
            and self.batch <= batches
            and -1 <= self.best_epoch < max(self.epoch, 1)
            and (self.best is None or math.isfinite(self.best))
            and math.isfinite(self.loss_sum)
            and 0 < self.learning_rate <= learning_rate
            and 0 <= self.seconds < math.inf
            and self.precision in ("float32", "bfloat16")
            and _is_trace(self.trace, self.epoch)
        )


def _is_trace(trace: list[dict[str, Any]], epochs: int) -> bool:
    """Whether there is a line for each epoch."""
    try:
        lines = TypeAdapter(list[Epoch]).validate_python(trace)
    except ValidationError:
        return False
    return [line.epoch for line in lines] == list(range(1, epochs + 1))


@dataclass(frozen=True)
class Progress:
    """What a listener hears after each batch, and once more when an epoch has `ended`."""

    epoch: int  # from 1
    epochs: int
    batch: int
    batches: int
    loss: float
    dev: float | None  # the last look
    best: float | None
    seconds: float
    ended: bool
    gadgets: str = ""  # those that learn in phase 2
    doing: str = ""  # what goes on if nothing is learned


Listener = Callable[[Progress], None]
