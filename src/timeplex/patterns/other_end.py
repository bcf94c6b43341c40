"""One end of a fact when the other is known: Pr(end | begin), and Pr(begin | end) by Bayes.

    Pr(b | e) ∝ Pr(b) Pr(e | b),    b ≤ e

with the two models of `dating`. Of the instants the one is taken that is worth most,

    worth(t) = expected aeIOU of the span + Pr(t),

where two spans with a common end have the aeIOU min(length) / max(length); the second term prefers an instant that is
likely by itself among spans that are about as good. It is *about right* if the true span shares at least half of its
hull with the predicted one.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from timeplex.kb import spans
from timeplex.patterns.base import Side, TimeQueries
from timeplex.patterns.dating import FROM, DateModel, closer, days_of, is_coarse, places
from timeplex.typing import Floats, Ints

BLOCK = 32
BEGINS = 160
"""So many of the likeliest begins are looked at, given an end."""
SUPPORT, CANDIDATES = 400, 150
"""So many of the likeliest instants stand for all, and so many of them can be the answer."""


@dataclass(frozen=True, eq=False)
class OtherEnd:
    """Missing ends as calendar instants, (n,), and how likely each is about right."""

    instant: Ints
    about_right: Floats


def other_end(model: DateModel, queries: TimeQueries, side: Side, known: Ints) -> OtherEnd:
    """The missing `side` of facts whose other side is known, (n,)."""
    found = OtherEnd(np.empty(len(queries), np.int64), np.empty(len(queries)))
    known = np.asarray(known, np.int64)
    for start in range(0, len(queries), BLOCK):
        part = slice(start, start + BLOCK)
        axis, likely = given(model, queries[part], side, known[part])
        _choose(axis, likely, known[part], side == "end", found.instant[part], found.about_right[part])
    return found


def given(model: DateModel, queries: TimeQueries, side: Side, known: Ints) -> tuple[Ints, Floats]:
    """The instants that are looked at, (n, m), and how likely each is the missing side: in sum 1."""
    evidence, durations = model.evidence, model.fitted.durations
    pointed = model.fitted.points(queries)
    usual = durations.points(queries, known[:, None]) if side == "end" else durations.points_before(queries, known)
    exactly = np.concatenate([usual, known[:, None]], 1)
    asked = closer(queries, evidence, *pointed, exactly)
    likely = _likely(model, asked, side, known)
    if is_coarse(evidence):
        few = days_of(asked, evidence, likely)
        if side == "begin":  # the likely begins may lie in the cell of the end itself
            best = np.argsort(-likely, axis=1, kind="stable")[:, :FROM]
            few = np.concatenate([few, np.take_along_axis(asked.instants(evidence), best, 1)], 1)
        asked = closer(queries, evidence, *pointed, np.concatenate([exactly, few], 1))
        likely = _likely(model, asked, side, known)
    return asked.instants(evidence), likely


def _likely(model: DateModel, asked: TimeQueries, side: Side, known: Ints) -> Floats:
    axis = asked.instants(model.evidence)
    place = places(axis, known)
    if side == "end":
        certain = np.ones((len(asked), 1))
        return np.asarray(model.ends(asked, place[:, None], certain)[:, 0])
    begins = model.begins(asked) * (np.arange(axis.shape[1]) <= place[:, None])
    begins[np.arange(len(asked)), place] += 1e-300  # so that there is one
    most = min(BEGINS, axis.shape[1])
    top = np.sort(np.argpartition(-begins, most - 1, axis=1)[:, :most], axis=1)
    prior = np.take_along_axis(begins, top, 1)
    ends = model.ends(asked, top, prior)
    reached = prior * np.take_along_axis(ends, place[:, None, None], 2)[:, :, 0]
    total = reached.sum(1, keepdims=True)
    reached = np.where(total > 0, reached / np.where(total > 0, total, 1), prior / prior.sum(1, keepdims=True))
    likely = np.zeros(axis.shape)
    np.put_along_axis(likely, top, reached, 1)
    return likely


@njit(cache=True, nogil=True)
def _choose(axis: Ints, likely: Floats, known: Ints, is_end: bool, instant: Ints, about_right: Floats) -> None:
    for query in range(len(axis)):
        order = np.argsort(-likely[query], kind="mergesort")[:SUPPORT]
        length = np.empty(len(order))
        for place in range(len(order)):
            gap = axis[query, order[place]] - known[query]
            length[place] = max(gap if is_end else -gap, 0) + 1
        best, most = 0, -1.0
        for one in range(min(CANDIDATES, len(order))):
            worth = likely[query, order[one]]
            for other in range(len(order)):
                shared = min(length[one], length[other]) / max(length[one], length[other])
                worth += likely[query, order[other]] * shared
            if worth > most + 1e-12:
                best, most = one, worth
        instant[query] = known[query] + (length[best] - 1 if is_end else 1 - length[best])
        right = 0.0
        for other in range(len(order)):
            if 2 * min(length[best], length[other]) >= max(length[best], length[other]):
                right += likely[query, order[other]]
        about_right[query] = min(right, 1.0)


def share_of_hull(span: spans.Span, true: spans.Span) -> Floats:
    """How much of their hull two spans share: (n,)."""
    hull = np.maximum(spans.volume(spans.hull(span, true)), 1)
    return np.asarray(spans.volume(spans.intersection(span, true)) / hull)
