"""one-at-a-time: two facts at once where one at a time is the rule, such as two heads of one government.

For a relation and a side (a subject's objects, or an object's subjects), each fact is compared with the one before it
that lasts longest. They are at once if they share more than one instant (a successor may begin in the year in which the
predecessor ends), or have the very same span. Facts with an open end are passed over: nobody knows how long they last.
"""

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, either, register
from timeplex.auditing.case import AuditContext, Repair, Tally, tally
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.kb import spans
from timeplex.typing import Bools, Ints

MOST_EXCEPTIONS = 0.1
SIDES = ("subject", "object")


@register("one-at-a-time")
class OneAtATime(Rule):
    """One object for a subject (or one subject for an object) at a time. The user's [[one-at-a-time]] demand it."""

    family, says = "exclusive", "two facts hold at once where one at a time is the rule"

    def find(self, case: AuditContext) -> Found:
        """Both facts of each pair at once, by how much each is to blame."""
        relations = len(case.kb.relations)
        own = {(table["relation"], table.get("per", "subject")) for table in case.own.of("one-at-a-time")}
        blocks: list[Block] = []
        for side in SIDES:
            earlier, later = _successions(case, side)
            at_once = _at_once(case, earlier, later)
            relation = case.facts.r[later]
            cases = np.bincount(relation, minlength=relations)
            broken = np.bincount(relation[at_once], minlength=relations)
            mined = (cases >= LEAST_CASES) & (broken <= MOST_EXCEPTIONS * cases)
            demanded = np.array([(number, side) in own for number in range(relations)], bool)
            one, other = earlier[at_once], later[at_once]
            counts = tally(case.facts.r[one], broken, cases, mined, demanded)
            blocks += _accusations(case, side, one, other, counts)
        return self.accuse(*blocks)


def _successions(case: AuditContext, side: str) -> tuple[Ints, Ints]:
    """(the fact that lasts longest of those before, fact) for all facts but the first of each entity and relation.

    Only if it follows within the time that one of them lasts, and has another entity on the other side.
    """
    facts = case.facts
    entity, partner = (facts.s, facts.o) if side == "subject" else (facts.o, facts.s)
    rows = np.flatnonzero(facts.closed)
    rows = rows[np.lexsort((facts.end[rows], facts.begin[rows], facts.r[rows], entity[rows]))]
    new = np.append(True, (np.diff(entity[rows]) != 0) | (np.diff(facts.r[rows]) != 0))[: len(rows)]
    # Lifting each group above the one before makes one running maximum serve all groups at once.
    end = facts.end[rows].astype(np.int64) + np.cumsum(new) * (1 << 33)
    longest = np.maximum.accumulate(np.where(end >= np.maximum.accumulate(end), np.arange(len(rows)), 0))
    later = np.flatnonzero(~new)
    earlier = longest[later - 1]
    one, two = facts[rows[earlier]], facts[rows[later]]
    apart = partner[rows[earlier]] != partner[rows[later]]
    # Far apart they could not be at once, and show nothing.
    near = two.begin.astype(np.int64) - one.end < np.maximum(spans.volume(one.span), spans.volume(two.span)) + 1
    return rows[earlier[apart & near]], rows[later[apart & near]]


def _at_once(case: AuditContext, earlier: Ints, later: Ints) -> Bools:
    one, two = case.facts[earlier], case.facts[later]
    first, last = spans.intersection(one.span, two.span)
    at_once: Bools = (last > first) | ((one.begin == two.begin) & (one.end == two.end))
    return at_once


def _accusations(case: AuditContext, side: str, one: Ints, other: Ints, counts: Tally) -> list[Block]:
    facts = case.facts

    def message(place: int) -> str:
        row = int(one[place])
        who = case.entity((facts.s if side == "subject" else facts.o)[row])
        what = "object" if side == "subject" else "subject"
        two = " and ".join(case.fact(int(rows[place])) for rows in (one, other))
        return f"{case.relation(facts.r[row])} has one {what} at a time, but {who} has two at once: {two}."

    def suggestion(place: int, row: int) -> str:
        if facts.begin[one[place]] == facts.begin[other[place]]:
            return "check both"
        if row == one[place]:
            return f"end {case.date(facts.end[row])} → {case.date(facts.begin[other[place]])}?"
        if facts.end[one[place]] > facts.end[row]:  # it lies within the other one
            return "check both"
        return f"begin {case.date(facts.begin[row])} → {case.date(facts.end[one[place]])}?"

    def repairs(place: int, row: int) -> list[Repair]:
        first, second = int(one[place]), int(other[place])
        if facts.begin[first] == facts.begin[second]:
            return []
        if row == first:
            return case.dated_otherwise(row, "end", int(facts.begin[second]))
        if facts.end[first] > facts.end[row]:
            return []
        return case.dated_otherwise(row, "begin", int(facts.end[first]))

    return either(case, one, other, counts, message, suggestion, repairs)
