"""unlikely-entity: rules, walks and types that lead to other entities than the one that is stated.

`patterns.misfits` says how well each stated object fits, the fact being out of sight, and how well entities
do that are drawn from the same role. Where drawn ones are λ times as frequent as stated ones, π λ of the stated ones
are wrong, if a share π of all is: λ is counted in blocks of the fits of a relation, which isotonic regression makes.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from timeplex.auditing.base import Block, Found, Rule, block, register
from timeplex.auditing.case import AuditContext
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.typing import Floats, Ints

if TYPE_CHECKING:
    from timeplex.patterns.misfits import Fits

WRONG = 0.02
"""π, the share of wrong entities that is expected before looking at a KB."""
MOST_SEVERE = 0.5
"""What only stands out is no surer: the entity that fits worst is found in a KB without error, too."""
LEAST_FACTS = 1000
"""A smaller KB shows too little of who goes with whom."""
CLEAR = 0.5
"""The probability from which on a likelier entity is suggested."""


@register("unlikely-entity")
class UnlikelyEntity(Rule):
    """The object of a fact is one that other facts lead to."""

    family, says = "entity", "other facts lead to another object"

    def find(self, case: AuditContext) -> Found:
        """Facts whose object fits as badly as entities that are drawn by chance."""
        if len(case.facts) < LEAST_FACTS:
            return self.none()
        from timeplex.patterns import misfits  # compiled code is loaded only where it is needed
        from timeplex.patterns.base import Evidence
        from timeplex.patterns.events import has_events

        size = (len(case.kb.entities), len(case.kb.relations))
        if has_events(case.facts) or misfits.too_dear(case.facts, *size):
            case.notes.append("Objects were not judged: the KB is too large, or of events without length.")
            return self.none()
        return self.accuse(_accused(case, misfits.judge(Evidence.of(case.kb, case.facts), case.on_progress)))


def _accused(case: AuditContext, fits: "Fits") -> Block:
    facts = case.facts
    relation = facts.r.astype(np.int64)
    severity, better, cases = np.zeros(len(facts)), np.zeros(len(facts), np.int64), np.zeros(len(facts), np.int64)
    for number in np.unique(relation):
        rows = np.flatnonzero(relation == number)
        if len(rows) < LEAST_CASES or fits.role[rows].max() < LEAST_CASES:
            continue
        severity[rows] = wrong_share(fits.fit[rows], fits.drawn[rows].ravel())
        better[rows] = len(rows) - np.searchsorted(np.sort(fits.fit[rows]), fits.fit[rows], side="right")
        cases[rows] = len(rows) - 1
    severity[fits.above == 0] = 0

    def message(place: int) -> str:
        names = ", ".join(case.entity(who) for who in _likelier(fits.likelier[place], int(facts.o[place])))
        of = f"{fits.above[place]:,} of {fits.role[place]:,}"
        return f"Other facts lead elsewhere: {of} possible objects are likelier, such as {names}."

    def suggestion(place: int) -> str:
        clear = fits.share[place] >= CLEAR
        return f"object → {case.entity(fits.likelier[place][0])}?" if clear else "check the object"

    return block(np.arange(len(facts)), severity, message, suggestion, holds=better, cases=cases, strength=-fits.fit)


def _likelier(best: Ints, stated: int) -> list[int]:
    """Those of the best that come before the stated one, each once."""
    names = list(dict.fromkeys(best.tolist()))
    return names[: names.index(stated)] if stated in names else names


def wrong_share(stated: Floats, drawn: Floats) -> Floats:
    """Pr(wrong) of each stated entity, by how well stated and drawn ones fit: it never rises with the fit. Shape (n,).

    λ is counted in the block, and among all that fit no better; the geometric mean of both is taken, since blocks are
    small where few fit so badly. Among all, half a stated one more is counted: one case makes nothing sure.
    """
    weight = WRONG * len(stated) / max(len(drawn), 1)
    value = np.concatenate([stated, drawn])
    is_drawn = np.repeat([0.0, 1.0], [len(stated), len(drawn)])
    order = np.lexsort((is_drawn, value))
    of, value = is_drawn[order], value[order]
    found = isotonic_regression(of, weights=np.where(of > 0, weight, 1.0), increasing=False)
    start, stop = found.blocks[:-1], found.blocks[1:]
    share = found.x[start]
    share = np.minimum(share / np.maximum(1 - share, 1e-9), MOST_SEVERE)
    local = np.interp(stated, (value[start] + value[stop - 1]) / 2, share)
    at_most = [np.searchsorted(np.sort(each), stated, side="right") for each in (drawn, stated)]
    tail = np.minimum(weight * at_most[0] / (at_most[1] + 0.5), MOST_SEVERE)
    descending = np.argsort(-stated, kind="stable")
    tail[descending] = np.maximum.accumulate(tail[descending])
    result: Floats = np.sqrt(local * tail)
    return result
