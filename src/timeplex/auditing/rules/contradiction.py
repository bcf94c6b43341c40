"""contradiction: two facts that say the same thing of different times.

Either the relation happens once to a subject (an instant, one in nearly all cases, such as a birth), and here are two
dates; or one and the same (s, r, o) is stated twice, with different spans that overlap.
"""

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, either, register
from timeplex.auditing.case import AuditContext, Repair, tally
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.auditing.rules.lifespan import happens_once
from timeplex.kb.facts import pair_key, split_key

MOST_EXCEPTIONS = 0.05


@register("contradiction")
class Contradiction(Rule):
    """What happens once has one date; no fact is stated twice. The user's [[contradiction]] name what happens once."""

    family, says = "duplicates", "two facts say the same of different times"

    def find(self, case: AuditContext) -> Found:
        """Both facts of each contradiction, by how much each is to blame."""
        return self.accuse(*_two_dates(case), *_stated_twice(case))


def _two_dates(case: AuditContext) -> list[Block]:
    """Different dates of a subject in a relation that happens once."""
    facts, evidence, relations = case.facts, case.evidence, len(case.kb.relations)
    rows = np.flatnonzero(evidence.known)
    rows = rows[np.lexsort((evidence.date[rows], facts.r[rows], facts.s[rows]))]
    same = (np.diff(facts.s[rows]) == 0) & (np.diff(facts.r[rows]) == 0)
    at = np.flatnonzero(same & (np.diff(evidence.date[rows]) != 0))
    one, other = rows[at], rows[at + 1]
    firsts = np.append(True, ~same)[: len(rows)]
    cases = np.bincount(facts.r[rows[firsts]], minlength=relations)
    broken = np.bincount(split_key(np.unique(pair_key(facts.r[one], facts.s[one])))[0], minlength=relations)
    own = np.isin(np.arange(relations), [table["relation"] for table in case.own.of("contradiction")])
    mined = (cases >= LEAST_CASES) & (broken <= MOST_EXCEPTIONS * cases) & happens_once(case)

    def message(place: int) -> str:
        row = int(one[place])
        dates = " and ".join(case.date(evidence.date[rows[place]]) for rows in (one, other))
        return (
            f"{case.relation(facts.r[row])} happens once, but {case.entity(facts.s[row])} has two dates of it: {dates}."
        )

    def suggestion(place: int, row: int) -> str:
        kept = (other if row == one[place] else one)[place]
        return f"remove it, or the other, dated {case.date(evidence.date[kept])}?"

    return either(case, one, other, tally(facts.r[one], broken, cases, mined, own), message, suggestion)


def _stated_twice(case: AuditContext) -> list[Block]:
    """The same (s, r, o) with two different spans that overlap."""
    facts, relations = case.facts, len(case.kb.relations)
    # In canonical order the spans of a triple stand side by side, by their begins.
    same = (np.diff(facts.s) == 0) & (np.diff(facts.r) == 0) & (np.diff(facts.o) == 0)
    dated = facts.dated
    # A later span may begin in the instant in which the earlier one ends.
    together = (np.diff(facts.begin) == 0) | (np.diff(facts.end) == 0)
    overlap = facts.begin[1:] < np.minimum(facts.end[:-1], facts.end[1:])
    differs = (np.diff(facts.begin) != 0) | (np.diff(facts.end) != 0)
    at = np.flatnonzero(same & (overlap | together) & differs & dated[1:] & dated[:-1])
    cases = np.bincount(facts.r, minlength=relations)
    broken = np.bincount(facts.r[at], minlength=relations)

    def suggestion(place: int, row: int) -> str:
        begin = min(int(facts.begin[at[place] + step]) for step in (0, 1))
        end = max(int(facts.end[at[place] + step]) for step in (0, 1))
        return f"make them one, {case.span(begin, end)}?"

    def message(place: int) -> str:
        rows = int(at[place]), int(at[place]) + 1
        two = " and ".join(case.span(int(facts.begin[row]), int(facts.end[row])) for row in rows)
        return f"It is stated twice, with different spans: {two}."

    counts = tally(facts.r[at], broken, cases, broken <= MOST_EXCEPTIONS * cases)

    def repairs(place: int, row: int) -> list[Repair]:
        both = [int(at[place]), int(at[place]) + 1]
        begin, end = (min(int(each) for each in facts.begin[both]), max(int(each) for each in facts.end[both]))
        same = (begin, end) == (int(facts.begin[row]), int(facts.end[row]))  # then the other one is to become it
        return [] if same else [case.otherwise(row, begin=begin, end=end)]

    return either(case, at, at + 1, counts, message, suggestion, repairs)
