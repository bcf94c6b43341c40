"""Where a training stands, and what is told of it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class Stopped(Exception):  # noqa: N818 - not an error: the user asked for it
    """Training was stopped by Ctrl-C or another signal, after a checkpoint."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped by signal {number}")
        self.code = 128 + number
        """The exit code that says so."""


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
