"""Lifespans: an entity's facts lie between its first and its last known date, or not far outside.

With a and z the first and the last date of the other facts of an entity, an instant t has

    before = −log(1 + max(0, a − t) / u),   after = −log(1 + max(0, t − z) / u),   inside = 1 if a ≤ t ≤ z

where u is two years. An entity without another date says nothing.
"""

import numpy as np

from timeplex.kb import spans
from timeplex.patterns.base import Evidence, Pattern, Side, TimeQueries, register
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.typing import Features, Ints

YEARS = 2.0
MOST_FACTS = 4096
"""So many facts of an entity are looked at, evenly spread in the order of their dates."""


def active(evidence: Evidence, x: Ints, own: Ints) -> tuple[Ints, Ints]:
    """First and last date of the other facts of each entity: (n,) each; first > last if there is none."""
    place, row = evidence.by_entity.others(x, own, MOST_FACTS)
    begin, end = evidence.begin[row], evidence.end[row]
    first, last = np.full(len(x), spans.OPEN_END, np.int64), np.full(len(x), spans.OPEN_BEGIN, np.int64)
    for date in (begin, end):
        known = (date != spans.OPEN_BEGIN) & (date != spans.OPEN_END)
        np.minimum.at(first, place[known], date[known])
        np.maximum.at(last, place[known], date[known])
    return first, last


@register("lifespans")
class Lifespans(Pattern):
    """How far an instant lies outside of the known dates of subject and object."""

    year_features = tuple(f"{x} {what}" for x in ("subject", "object") for what in ("before", "after", "inside"))

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 6, instants); the same for begin and end."""
        axis = queries.instants(self.evidence)
        unit = YEARS * INSTANTS_A_YEAR[self.evidence.granularity]
        rows = np.zeros((len(queries), 6, axis.shape[1]), np.float32)
        for at, x in enumerate((queries.s, queries.o)):
            first, last = (edge[:, None] for edge in active(self.evidence, x, queries.own))
            known = first <= last
            rows[:, 3 * at] = np.where(known, -np.log1p(np.maximum(first - axis, 0) / unit), 0)
            rows[:, 3 * at + 1] = np.where(known, -np.log1p(np.maximum(axis - last, 0) / unit), 0)
            rows[:, 3 * at + 2] = known & (first <= axis) & (axis <= last)
        return rows
