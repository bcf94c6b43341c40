"""The spans of which a question tells a part only: who asks for 1998 may mean a fact that held from 1995 to 2001.

    Pr(b, e | x, r, T) ∝ Pr(b, e | x, r) · |[b, e] ∩ T| / |T|

T stands for an instant of it, each as likely. Pr(b, e | x, r) is what `dating` says of x and r alone: of a slot that is
free between two facts, of a mirrored fact, of usual durations. The other entity is not known; in its place stands one
without any fact (`Evidence.with_nobody`).
"""

import numpy as np

from timeplex.kb import spans
from timeplex.patterns.base import LinkQueries, TimeQueries
from timeplex.patterns.dating import BLOCK, DateModel
from timeplex.typing import Floats, Ints

MOST = 3
"""So many spans are told of each question."""
LASTING = 0.05
"""A relation of which fewer facts last has events: they hold when they are asked for, and at no other time."""
LONGEST = 0.99
"""This share of a relation's facts are no longer than the spans that are looked at."""
RARE = 0.01
"""Spans that are less likely than this are not told."""


class LikelySpans:
    """The likeliest spans of questions. The evidence of the model has to have nobody."""

    def __init__(self, model: DateModel) -> None:
        self.model = model
        evidence = model.evidence
        self.nobody = evidence.entities - 1
        facts, relations = evidence.facts, evidence.relations
        counts = np.bincount(facts.r, minlength=relations)
        lasts = np.bincount(facts.r, facts.end > facts.begin, relations)  # an open end counts as one that is far
        self.lasts = lasts > LASTING * np.maximum(counts, 1)
        closed = facts[facts.closed]
        length = closed.end.astype(np.int64) - closed.begin
        self.longest = np.full(relations, evidence.last - evidence.first)
        for r in range(relations):
            mine = length[closed.r == r]
            if len(mine):
                self.longest[r] = np.quantile(mine, LONGEST, method="higher")

    def of(self, queries: LinkQueries) -> tuple[Ints, Ints, Floats]:
        """Begins, ends and Pr of the likeliest spans, (n, `MOST`) each, best first; Pr is 0 where there are no more.

        A question of which nothing is known, about events, or whose time is open, has its own span alone.
        """
        begin, end = (np.repeat(column[:, None], MOST, axis=1) for column in (queries.begin, queries.end))
        share = np.zeros(begin.shape)
        share[:, 0] = 1
        closed = (queries.begin != spans.OPEN_BEGIN) & (queries.end != spans.OPEN_END)
        several = np.flatnonzero(closed & self.lasts[queries.r % self.model.evidence.relations])
        for at in range(0, len(several), BLOCK):
            rows = several[at : at + BLOCK]
            some = self._of(queries[rows])
            known = some[2][:, 0] > 0
            for column, found in zip((begin, end, share), some, strict=True):
                column[rows[known]] = found[known]
        return begin, end, share

    def _of(self, queries: LinkQueries) -> tuple[Ints, Ints, Floats]:
        evidence = self.model.evidence
        inverse = queries.r >= evidence.relations
        r = queries.r % evidence.relations
        s, o = np.where(inverse, self.nobody, queries.x), np.where(inverse, queries.x, self.nobody)
        times = self.model.focus(TimeQueries(s, r, o, queries.own))
        axis = times.instants(evidence)
        axis = np.broadcast_to(axis, (len(queries), axis.shape[1]))
        low, high = queries.begin[:, None], queries.end[:, None]
        begins = self.model.begins(times)
        begins = begins * ((axis <= high) & (axis >= low - self.longest[r][:, None]))
        places, likely, ends = self.model.joint(times, begins)
        start = np.take_along_axis(axis, places, 1)
        shared = np.minimum(axis[:, None], high[:, None]) - np.maximum(start[:, :, None], low[:, None]) + 1
        weight = likely[:, :, None] * ends * (np.maximum(shared, 0) / (high - low + 1)[:, None])
        flat, instants = weight.reshape(len(queries), -1), weight.shape[2]
        best = np.argsort(-flat, axis=1, kind="stable")[:, :MOST]
        share = np.take_along_axis(flat, best, 1)
        total = share.sum(1, keepdims=True)
        share = share / np.where(total > 0, total, 1)
        share[share < RARE] = 0
        return np.take_along_axis(start, best // instants, 1), np.take_along_axis(axis, best % instants, 1), share
