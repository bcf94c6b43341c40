"""A pattern of one's own: who is busy with many things at a time takes on one more, or none."""

import numpy as np

from timeplex.patterns.base import LinkQueries, Pattern, Side, TimeQueries, register
from timeplex.typing import Features

MOST = 1000
"""So many facts of an entity are looked at."""


@register("busy")
class Busy(Pattern):
    """log(1 + other facts of the subject that hold at an instant), and of each candidate at the begin of a question."""

    year_features = ("busy",)
    candidate_features = ("busy then",)

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """(n, 1, instants)."""
        evidence = self.evidence
        axis = queries.instants(evidence)
        axis = np.broadcast_to(axis, (len(queries), axis.shape[1]))
        rows = np.zeros((len(queries), 1, axis.shape[1]), np.float32)
        query, fact = evidence.by_entity.others(queries.s, queries.own, MOST)
        holds = (evidence.begin[fact, None] <= axis[query]) & (axis[query] <= evidence.end[fact, None])
        np.add.at(rows[:, 0], query, holds.astype(np.float32))
        return np.log1p(rows)

    def candidates(self, queries: LinkQueries) -> Features:
        """(n, 1, entities)."""
        evidence = self.evidence
        rows = np.zeros((len(queries), 1, evidence.entities), np.float32)
        facts = np.tile(np.arange(len(evidence)), 2)
        for row, (date, own) in enumerate(zip(queries.begin.tolist(), queries.own.tolist(), strict=True)):
            holds = (evidence.begin <= date) & (date <= evidence.end) & (facts != own)
            rows[row, 0] = np.bincount(evidence.x[holds], minlength=evidence.entities)
        return np.log1p(rows)
