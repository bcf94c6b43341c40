"""gap: two facts of an entity that are further apart, or closer, than such facts are. `evidence` says who errs."""

from typing import Any

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, block, either, register
from timeplex.auditing.case import CERTAIN, LEAST_SEVERITY, AuditContext, Tally
from timeplex.auditing.evidence import blocks, nearer
from timeplex.kb.facts import pair_key
from timeplex.typing import Ints

ODD = -0.5
"""ℓ_fg below which a gap is told as a reason."""


@register("gap")
class Gap(Rule):
    """The time between two facts of an entity is the usual one. The user's [[gap]] limits it."""

    family, says = "dates", "the time to other facts of the entity is not the usual one"

    def find(self, case: AuditContext) -> Found:
        """Facts that all evidence together makes suspicious, with the oddest gap as the reason."""
        return self.accuse(*_outside(case), unusual(case))


def unusual(case: AuditContext) -> Block:
    """Facts whose date is unusually far from others of the same entity."""
    of = case.evidence
    distance = np.empty_like(of.gap)
    for part in blocks(len(distance)):
        gap, kind = of.gap[part], of.kind[part]
        distance[part] = np.maximum(np.maximum(of.kinds.low[kind] - gap, gap - of.kinds.high[kind]), 0)
    odd = np.flatnonzero(of.weight <= ODD)
    suspect = [
        odd[(of.wrong[fact[odd]] >= LEAST_SEVERITY) & (of.wrong[other[odd]] < of.wrong[fact[odd]])]
        for fact, other in ((of.first, of.second), (of.second, of.first))
    ]
    fact = np.concatenate([of.first[suspect[0]], of.second[suspect[1]]]).astype(np.int64)
    other = np.concatenate([of.second[suspect[0]], of.first[suspect[1]]]).astype(np.int64)
    pair = np.concatenate(suspect)

    def message(place: int) -> str:
        at, accused, witness = int(pair[place]), int(fact[place]), int(other[place])
        apart = int(of.date[accused] - of.date[witness])
        where = f"{case.apart(apart) if apart else 'together with'} {case.fact(witness)}"
        if not distance[at]:  # within the usual range, but where hardly any is
            return f"It is dated {where}; such facts are hardly ever so far apart."
        low, high = int(of.kinds.low[of.kind[at]]), int(of.kinds.high[of.kind[at]])
        if of.even[of.kind[at]]:
            usual = f"at most {case.length(high)} apart" if high else "at the same time"
        else:
            usual = _range(case, *((low, high) if accused == of.second[at] else (-high, -low)))
        return f"It is dated {where}; usual is {usual}."

    return block(
        fact,
        of.wrong[fact],
        message,
        lambda place: case.better_date(int(fact[place])),
        repairs=lambda place: case.better_dates(int(fact[place])),
        other=other,
        holds=nearer(of.kind, distance)[pair],
        cases=np.where(distance[pair] > 0, of.kinds.size[of.kind[pair]] - 1, 0),
        strength=-of.weight[pair] * (1 - of.wrong[other]),
    )


def _range(case: AuditContext, low: int, high: int) -> str:
    """`19 to 50 years after`, `2 years before to 10 years after`."""
    if low >= 0:
        return f"{case.lengths(low, high)} after"
    if high <= 0:
        return f"{case.lengths(-high, -low)} before"
    return f"{case.length(-low)} before to {case.length(high)} after"


def same_subject(case: AuditContext, first: int, second: int) -> tuple[Ints, Ints]:
    """All pairs of facts of one subject, the one of relation `first`, the other of `second`, with known begins."""
    rows = np.flatnonzero((case.facts.r == first) & case.facts.has_begin)
    at, other = case.facts.by_subject_relation.matches(pair_key(case.facts.s[rows], np.full(len(rows), second)))
    known = case.facts.has_begin[other] & (rows[at] != other)
    return rows[at][known], other[known]


def _outside(case: AuditContext) -> list[Block]:
    """What is outside the user's [[gap]]."""
    return [block for own in case.own.of("gap") for block in _limited(case, own)]


def _limited(case: AuditContext, own: dict[str, Any]) -> list[Block]:
    """The pairs whose gap is below `at_least`, or above `at_most`."""
    first, second = same_subject(case, own["first"], own["second"])
    gap = case.facts.begin[second].astype(np.int64) - case.facts.begin[first]
    least, most = own.get("at_least"), own.get("at_most")
    wrong = np.zeros(len(gap), bool)
    limits = []
    if least is not None:
        wrong |= gap < least
        limits.append(f"at least {case.exactly(least)}")
    if most is not None:
        wrong |= gap > most
        limits.append(f"at most {case.exactly(most)}")
    rule = f"{case.relation(own['second'])} begins {' and '.join(limits)} after {case.relation(own['first'])}"
    first, second, gap = first[wrong], second[wrong], gap[wrong]
    return either(
        case,
        first,
        second,
        Tally(CERTAIN),
        lambda place: f"By your rule {rule}, but here it is {case.exactly(gap[place])}.",
        lambda place, row: case.better_date(row),
        lambda place, row: case.better_dates(row),
    )
