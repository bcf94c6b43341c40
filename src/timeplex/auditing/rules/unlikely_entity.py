"""unlikely-entity: nothing else leads from the subject to the object, or what is known of it speaks against it.

`patterns.misfits` says how much each fact, being out of sight, looks like one whose object was drawn by chance from
those of its relation. Where drawn ones are λ times as frequent as stated ones, π λ of the stated ones are wrong, if a
share π of all is: λ is counted in blocks of the log odds, which isotonic regression makes, for all facts together and
for each relation; the geometric mean of both is taken.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from timeplex.auditing.base import Block, Found, Rule, block, register
from timeplex.auditing.case import LEAST_SEVERITY, AuditContext, Repair
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.typing import Floats

if TYPE_CHECKING:
    from timeplex.patterns.base import Evidence
    from timeplex.patterns.misfits import Fits

WRONG = 0.025
"""π, the share of wrong objects that is expected before looking at a KB."""
MOST_SEVERE = 0.9
"""What only stands out is no surer: the object that fits worst is found in a KB without error, too."""
LEAST_FACTS = 1000
"""A smaller KB shows too little of who goes with whom."""
CLEAR = 0.5
"""The probability from which on a likelier object is suggested."""
AGAINST = -1.0
"""A log ratio of dates or types below which it is told as a reason."""


@register("unlikely-entity")
class UnlikelyEntity(Rule):
    """The object of a fact is one that other facts lead to."""

    family, says = "entity", "the object does not go with the subject"

    def find(self, case: AuditContext) -> Found:
        """Facts whose object looks like one that is drawn by chance."""
        if len(case.facts) < LEAST_FACTS:
            return self.none()
        from timeplex.patterns import misfits  # compiled code is loaded only where it is needed
        from timeplex.patterns.base import Evidence
        from timeplex.patterns.events import has_events

        evidence = Evidence.of(case.kb, case.facts)
        if has_events(case.facts) or misfits.too_dear(evidence):
            case.notes.append("Objects were not judged: the KB is too large, or of events without length.")
            return self.none()
        return self.accuse(_accused(case, evidence, misfits.judge(evidence, case.on_progress)))


def _accused(case: AuditContext, evidence: "Evidence", fits: "Fits") -> Block:
    from timeplex.patterns.misfits import likelier

    facts = case.facts
    severity = wrong_share(fits.odds, fits.drawn.ravel())
    better, cases = np.zeros(len(facts), np.int64), np.zeros(len(facts), np.int64)
    for number in np.unique(facts.r):
        rows = np.flatnonzero(facts.r == number)
        if len(rows) < LEAST_CASES or len(np.unique(facts.o[rows])) < LEAST_CASES:
            severity[rows] = 0
            continue
        severity[rows] = np.sqrt(severity[rows] * wrong_share(fits.odds[rows], fits.drawn[:, rows].ravel()))
        better[rows] = np.searchsorted(np.sort(fits.odds[rows]), fits.odds[rows], side="left")
        cases[rows] = len(rows) - 1
    rows = np.flatnonzero(severity >= LEAST_SEVERITY)
    others = likelier(evidence, rows, fits)

    def message(place: int) -> str:
        row, names = int(rows[place]), others.names[place]
        told = f"{_reason(case, row, fits.seen[row])}."
        if names:
            told = f"{told[:-1]}; likelier {'is' if len(names) == 1 else 'are'} {_listed(case, names)}."
        return told

    def suggestion(place: int) -> str:
        clear = others.share[place] >= CLEAR
        return f"object → {case.entity(others.names[place][0])}?" if clear else "check the object"

    def repairs(place: int) -> list[Repair]:
        clear = others.share[place] >= CLEAR
        return [case.otherwise(int(rows[place]), o=int(others.names[place][0]))] if clear else []

    columns = (severity[rows], message, suggestion)
    sizes = better[rows], cases[rows], fits.odds[rows]
    return block(rows, *columns, holds=sizes[0], cases=sizes[1], strength=sizes[2], repairs=repairs)


def _listed(case: AuditContext, names: list[int]) -> str:
    return ", ".join(case.entity(who) for who in names)


def _reason(case: AuditContext, row: int, seen: Floats) -> str:
    """What speaks against the object, the strongest first; from both ends."""
    from timeplex.patterns.misfits import FEATURES

    there = dict(zip(FEATURES, seen.tolist(), strict=False))
    subject, of = case.entity(case.facts.s[row]), case.entity(case.facts.o[row])
    if there["best date, begin"] < AGAINST:
        return f"Other facts of {of} are of another time"
    if there["worst type"] < AGAINST:
        return f"Other facts of {of} are not of the sort that an object of {case.relation(case.facts.r[row])} has"
    ways = ("walk", "long walk", "links: sum", "known")
    if not any(there[name] for name in ways):
        return f"No other facts lead from {subject} to {of}"
    return f"Other facts of {subject} lead elsewhere than to {of}"


def wrong_share(odds: Floats, drawn: Floats) -> Floats:
    """Pr(wrong) of each stated fact, by its odds and those of drawn ones: it never falls with the odds. Shape (n,).

    λ is counted in the block, and among all that look at least as wrong; the geometric mean of both is taken, since
    blocks are small where few do. Among all, half a stated one more is counted: one case makes nothing sure.
    """
    stated, drawn = -odds, -drawn
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
