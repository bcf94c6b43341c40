"""duration: a fact that lasts much longer, or much shorter, than facts of its relation do.

For the relations with enough facts whose ends are both known, x = log(end − begin + 1) is compared with its median and
its quantiles: z = (x − m) / σ, with a σ for either side. What is that far out by nature with chance T is wrong with
probability π τ / (π τ + T), where τ = 0.1 is the chance that a wrong span is that far out. T is Φ(−|z|), or the share
of the relation's other facts that are as far out, if that is more.
"""

import numpy as np
from scipy.special import ndtr

from timeplex.auditing.base import Block, Found, Rule, block, register
from timeplex.auditing.case import CERTAIN, AuditContext
from timeplex.auditing.evidence import ERRORS, LEAST_CASES, NORMAL_95, habits, nearer

FAR_OUT = 0.1
LEAST_SPREAD = 0.5
"""In logarithms: no habit is so strict that a fact half as long again would break it."""
LIMITS = {"at_least": "at least", "at_most": "at most"}
FINE = 1000
DOUBTFUL = 0.1
"""A begin that is wrong with more than this probability is mended, not the end."""


@register("duration")
class Duration(Rule):
    """Facts of a relation last about as long as others. The user's [[duration]] sets limits to end − begin."""

    family, says = "duration", "it lasts longer or shorter than such facts do"

    def find(self, case: AuditContext) -> Found:
        """Facts with both ends known whose duration is out of the ordinary."""
        facts = case.facts
        known = facts.closed
        repaired, _ = case.repaired
        known[repaired[repaired >= 0]] = False  # their end is ours
        rows = np.flatnonzero(known)
        relation = facts.r[rows].astype(np.int64)
        length = facts.end[rows].astype(np.int64) - facts.begin[rows] + 1
        # Quantiles of whole numbers are taken: logarithms in thousandths.
        fine = np.round(FINE * np.log(length)).astype(np.int64)
        usual = habits(relation, fine, len(case.kb.relations))
        below, above = (
            (side / NORMAL_95 / FINE)[relation] for side in (usual.median - usual.low, usual.high - usual.median)
        )
        apart = (fine - usual.median[relation]) / FINE
        distance = np.abs(apart) / np.maximum(np.where(apart < 0, below, above), LEAST_SPREAD)
        # As far out by nature as the habit says, or as often as it happens to others of the relation.
        order = np.round(FINE * distance).astype(np.int64)
        others = usual.size[relation] - 1 - nearer(relation, order)
        chance = np.maximum(ndtr(-distance), (others + 0.5) / np.maximum(usual.size[relation], 1))
        severity = ERRORS * FAR_OUT / (ERRORS * FAR_OUT + chance)
        severity[usual.size[relation] < LEAST_CASES] = 0
        outside = np.maximum(np.maximum(usual.low[relation] - fine, fine - usual.high[relation]), 0)
        severity[outside == 0] = 0

        def message(place: int) -> str:
            limits = [round(np.exp(ends[relation[place]] / FINE)) for ends in (usual.low, usual.high)]
            lasting = case.lengths(*limits)
            return f"It lasts {case.length(length[place])}; usual of {case.relation(relation[place])} is {lasting}."

        mined = block(
            rows,
            severity,
            message,
            lambda place: _repair(
                case, int(rows[place]), *(np.exp(ends[relation[place]] / FINE) for ends in (usual.low, usual.high))
            ),
            holds=nearer(relation, outside),
            cases=usual.size[relation] - 1,
        )
        return self.accuse(*_outside(case), mined)


def _repair(case: AuditContext, row: int, low: float, high: float) -> str:
    begin, end = int(case.facts.begin[row]), int(case.facts.end[row])
    if case.evidence.wrong[row] > DOUBTFUL:
        return case.instead("begin", begin, end - round(high) + 1, end - round(low) + 1)
    return case.instead("end", end, begin + round(low) - 1, begin + round(high) - 1)


def _outside(case: AuditContext) -> list[Block]:
    """What is outside the user's [[duration]]."""
    return [
        _limited(case, own["relation"], key, own[key])
        for own in case.own.of("duration")
        for key in LIMITS
        if key in own
    ]


def _limited(case: AuditContext, relation: int, key: str, limit: int) -> Block:
    """The facts whose end − begin is below `at_least`, or above `at_most`."""
    facts = case.facts
    rows = np.flatnonzero(facts.closed & (facts.r == relation))
    lasts = facts.end[rows].astype(np.int64) - facts.begin[rows]
    wrong = lasts < limit if key == "at_least" else lasts > limit
    rows, lasts = rows[wrong], lasts[wrong]
    rule = f"By your rule {case.relation(relation)} lasts {LIMITS[key]} {case.exactly(limit)}"
    return block(
        rows,
        CERTAIN,
        lambda place: f"{rule}, here {case.exactly(lasts[place])}.",
        lambda place: _repair(case, int(rows[place]), limit + 1, limit + 1),
    )
