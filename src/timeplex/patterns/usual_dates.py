"""Usual dates: when facts of a relation happen, as log(p / uniform) over the axis, smoothed like gaps (`densities`)."""

import numpy as np

from timeplex.kb import spans
from timeplex.patterns.base import SIDES, Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.densities import smoothed, tables_of
from timeplex.typing import Bools, Features, Ints


@register("usual-dates")
class UsualDates(Pattern):
    """The dates of all facts of the relation."""

    year_features = ("usual dates",)

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        super().__init__(evidence)
        facts, self._axis = evidence.facts, evidence.axis
        counting = facts.r if counted is None else facts.r[counted]
        self.of = tables_of(counting, evidence.relations)
        self.tables: dict[str, Features] = {}
        for side in SIDES:
            date = (facts.begin if side == "begin" else facts.end).astype(np.int64)
            known = (date != spans.OPEN_BEGIN) & (date != spans.OPEN_END)
            known = known if counted is None else known & counted
            cell = self.of[facts.r[known]] * len(self._axis) + self._cells(date[known])
            counts = np.bincount(cell, minlength=(self.of.max(initial=-1) + 1) * len(self._axis))
            self.tables[side] = smoothed(
                counts.reshape(-1, len(self._axis)).astype(float), evidence.width.astype(float)
            )

    def _cells(self, dates: Ints) -> Ints:
        """The cell of the evidence's axis that dates fall into; the nearest before them if they fall between."""
        return np.clip(np.searchsorted(self._axis, dates, side="right") - 1, 0, len(self._axis) - 1)

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 1, instants)."""
        return self.tables[side][
            self.of[queries.r][:, None, None], self._cells(queries.instants(self.evidence))[:, None]
        ]
