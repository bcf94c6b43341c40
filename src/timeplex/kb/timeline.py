"""The timeline: the ordered instants that models and evaluation work on.

A KB stores calendar instants (`dates`). A timeline numbers them 0 … n−1: `observed` has only the instants
that occur in the data, `calendar` has every instant between the first and the last.

>>> timeline = Timeline.of([1998, 2001, 2001], Granularity.YEAR, "calendar")
>>> len(timeline), timeline.position([2000]), timeline.text(0)
(4, array([2]), '1998')
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.typing import Ints

Kind = Literal["observed", "calendar"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Distinct calendar instants in order, shape (n,), and what one instant is."""

    instants: Ints
    granularity: Granularity
    kind: Kind

    @classmethod
    def of(cls, instants: ArrayLike, granularity: Granularity, kind: Kind) -> "Timeline":
        """The timeline of the given instants; open ends among them are passed over."""
        observed = np.unique(np.asarray(instants, np.int64))
        observed = observed[(observed != spans.OPEN_BEGIN) & (observed != spans.OPEN_END)]
        if kind == "calendar" and len(observed):
            observed = np.arange(observed[0], observed[-1] + 1)
        return cls(observed, granularity, kind)

    def __len__(self) -> int:
        return len(self.instants)

    @property
    def first(self) -> int:
        """The earliest instant."""
        return int(self.instants[0])

    @property
    def last(self) -> int:
        """The latest instant."""
        return int(self.instants[-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return self.granularity == other.granularity and np.array_equal(self.instants, other.instants)

    __hash__ = None  # type: ignore[assignment]

    def position(self, instants: ArrayLike) -> Ints:
        """Position of each instant. One that is not on the timeline is an error that names it."""
        instants = np.asarray(instants, np.int64)
        where = np.asarray(np.searchsorted(self.instants, instants))  # one instant alone would give no array
        found = np.asarray(where < len(self))
        found[found] = self.instants[where[found]] == instants[found]
        if not found.all():
            stranger = instants[~found][:1]
            is_open = stranger[0] in (spans.OPEN_BEGIN, spans.OPEN_END)
            what = "An open end" if is_open else dates.write(stranger, self.granularity)[0]
            raise InputError(
                f"{what} is not on the timeline.",
                f"It runs from {self.text(0)} to {self.text(-1)} ({self.kind})." if len(self) else "It is empty.",
            )
        return where

    def positions(self, span: spans.Span) -> tuple[Ints, Ints]:
        """First and last position inside each span; open ends run to the edges of the timeline.

        A span that holds no instant of the timeline has first > last.
        """
        first = np.searchsorted(self.instants, np.asarray(span[0], np.int64), side="left")
        last = np.searchsorted(self.instants, np.asarray(span[1], np.int64), side="right") - 1
        return first, last

    def text(self, position: int) -> str:
        """The date at a position, as a person would write it."""
        return dates.write(self.instants[[position]], self.granularity)[0]
