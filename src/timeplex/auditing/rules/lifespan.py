"""lifespan: a fact that goes on after its entity's death, or begins before its birth or after its death.

Birth and death are found by what they are: a relation of instants that a subject has once, and that comes before
(after) all others. What begins before the birth or after the death of its *subject* is told by `ordering`; here are the
ends of facts, and their objects, as far as facts of the relation usually keep within the life (of the subject, of the
object).
"""

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, either, register
from timeplex.auditing.case import AuditContext, Repair, tally
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.kb.facts import pair_key, split_key
from timeplex.typing import Bools, Codes

LEAST_FIRST = 0.95
"""How often a birth is the first of two facts, and a death the last."""
LEAST_ONCE = 0.95
LEAST_WITHIN = 0.95


@register("lifespan")
class Lifespan(Rule):
    """Facts lie within the lives of those they are about. The user's [[lifespan]] name birth and death."""

    family, says = "dates", "it lies outside the life of its subject or object"

    def find(self, case: AuditContext) -> Found:
        """Facts outside a life, and births and deaths that make others lie outside."""
        births, deaths = lives(case)
        own = bool(case.own.of("lifespan"))
        facts, blocks = case.facts, []
        ordinary = ~np.isin(facts.r, [*births, *deaths])
        for side, entity in (("subject", facts.s), ("object", facts.o)):
            for event, relations, end, words in (
                ("birth", births, "begin", "begins before the birth"),
                ("death", deaths, "begin", "begins after the death"),
                ("death", deaths, "end", "ends after the death"),
            ):
                if side == "subject" and end == "begin" and not own:
                    continue  # told by `ordering`
                blocks += _outside(case, side, entity, ordinary, event, relations, end, words, own)
        return self.accuse(*blocks)


def lives(case: AuditContext) -> tuple[list[int], list[int]]:
    """The relations that are births, and those that are deaths; none if the KB does not look like lives."""
    own = case.own.of("lifespan")
    if own:
        return [table["birth"] for table in own], [table["death"] for table in own]
    cases, first, last = case.precedence
    enough = (cases >= LEAST_CASES) & happens_once(case)
    births = set(np.flatnonzero(enough & (first >= LEAST_FIRST * cases)).tolist())
    deaths = set(np.flatnonzero(enough & (last >= LEAST_FIRST * cases)).tolist())
    # A life has both, and there are enough such lives.
    both = [
        (pair.first, pair.second)
        for pair in case.orderings
        if pair.first in births and pair.second in deaths and pair.entities >= LEAST_CASES
    ]
    return sorted({birth for birth, _ in both}), sorted({death for _, death in both})


def happens_once(case: AuditContext) -> Bools:
    """Which relations are of instants, one a subject in nearly all cases."""
    facts, relations = case.facts, len(case.kb.relations)
    pairs, count = np.unique(pair_key(facts.r, facts.s), return_counts=True)
    subjects = np.bincount(split_key(pairs)[0], minlength=relations)
    alone = np.bincount(split_key(pairs[count == 1])[0], minlength=relations)
    number = np.bincount(facts.r, minlength=relations)
    instants = np.bincount(facts.r[facts.begin == facts.end], minlength=relations)
    return (alone >= LEAST_ONCE * subjects) & (instants >= LEAST_ONCE * number) & (number > 0)


def _outside(
    case: AuditContext,
    side: str,
    entity: Codes,
    ordinary: Bools,
    event: str,
    relations: list[int],
    end: str,
    words: str,
    own: bool,
) -> list[Block]:
    """The facts whose begin (or end) is on the wrong side of the birth (or death) of their subject (or object)."""
    facts = case.facts
    told = np.flatnonzero(np.isin(facts.r, relations) & case.evidence.known)
    # The first birth and the last death of an entity count.
    order = np.lexsort((case.evidence.date[told] * (1 if event == "birth" else -1), facts.s[told]))
    who, at = np.unique(facts.s[told[order]], return_index=True)
    life = np.full(len(case.kb.entities), -1)
    life[who] = told[order[at]]
    date, known = (facts.begin, facts.has_begin) if end == "begin" else (facts.end, facts.has_end)
    rows = np.flatnonzero(ordinary & known & (life[entity] >= 0))
    limit = life[entity[rows]]
    bound = case.evidence.date[limit]
    wrong = date[rows] < bound if event == "birth" else date[rows] > bound
    number = len(case.kb.relations)
    cases = np.bincount(facts.r[rows], minlength=number)
    broken = np.bincount(facts.r[rows[wrong]], minlength=number)
    mined = (cases >= LEAST_CASES) & (cases - broken >= LEAST_WITHIN * cases)
    one, other = rows[wrong], limit[wrong]

    def message(place: int) -> str:
        row, what = int(one[place]), case.fact(int(other[place]))
        return f"{case.relation(facts.r[row])} {words} of its {side} in {case.date(bound[wrong][place])}: {what}."

    def suggestion(place: int, row: int) -> str:
        if row == other[place]:
            return case.better_date(row)
        side = "later" if event == "birth" else "earlier"
        return f"{end} {case.date(date[row])} → {case.date(bound[wrong][place])} or {side}?"

    def repairs(place: int, row: int) -> list[Repair]:
        if row == other[place]:
            return case.better_dates(row)
        return case.dated_otherwise(row, end, int(bound[wrong][place]))

    counts = tally(facts.r[one], broken, cases, mined, own)
    return either(case, one, other, counts, message, suggestion, repairs)
