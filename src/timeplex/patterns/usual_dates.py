"""Usual dates: when facts of a relation happen, as log(p / uniform) over the axis, smoothed like gaps (`densities`)."""

import numpy as np

from timeplex.kb import spans
from timeplex.patterns.base import SIDES, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import smoothed
from timeplex.typing import Bools, Features


@register("usual-dates")
class UsualDates(Pattern):
    """The dates of all facts of the relation."""

    year_features = ("usual dates",)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        facts, axis = evidence.facts, evidence.axis
        self.tables: dict[str, Features] = {}
        for side in SIDES:
            date = (facts.begin if side == "begin" else facts.end).astype(np.int64)
            known = (date != spans.OPEN_BEGIN) & (date != spans.OPEN_END)
            known = known if counted is None else known & counted
            place = np.clip(np.searchsorted(axis, date[known]), 0, len(axis) - 1)
            counts = np.bincount(facts.r[known] * len(axis) + place, minlength=evidence.relations * len(axis))
            self.tables[side] = smoothed(counts.reshape(-1, len(axis)).astype(float), np.ones(len(axis)))

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 1, axis)."""
        return self.tables[side][queries.r][:, None]
