"""missing-mirror: a relation that nearly always holds both ways, and here only one way."""

from dataclasses import replace

import numpy as np

from timeplex.auditing.base import Found, Rule, block, register
from timeplex.auditing.case import AuditContext, Repair, tally
from timeplex.auditing.evidence import LEAST_CASES, numbered
from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.typing import Bools, Ints

LEAST_MIRRORED = 0.8
WRONG_OBJECT = 0.9
"""How much more likely a wrong object is than chance where another fact of the same span says which one was meant."""


@register("missing-mirror")
class MissingMirror(Rule):
    """(s, r, o) comes with (o, r, s) if r is symmetric. The user's [[missing-mirror]] say which relations are."""

    family, says = "mirror", "the relation holds both ways, but here only one way"

    def find(self, case: AuditContext) -> Found:
        """Facts of symmetric relations without their mirror: it is missing, or an entity is wrong."""
        facts, relations = case.facts, len(case.kb.relations)
        rows = np.flatnonzero(facts.s != facts.o)
        r = facts.r[rows]
        mirrored = _mirrored(facts, rows)
        cases = np.bincount(r, minlength=relations)
        missing = np.bincount(r[~mirrored], minlength=relations)
        own = np.isin(np.arange(relations), [table["relation"] for table in case.own.of("missing-mirror")])
        mined = (cases >= LEAST_CASES) & (cases - missing >= LEAST_MIRRORED * cases)
        at = np.flatnonzero(~mirrored)
        accused, of = rows[at], r[at]
        counts = tally(of, missing, cases, mined, own)
        # Two explanations: the fact is wrong, or the other one has just not been told.
        sure = counts.sure / np.where(own[of], 1, 2)
        meant = _meant(facts, accused)
        # An object that another fact without a mirror says better is wrong itself; and that other fact is explained.
        explained = np.isin(accused, meant)
        severity = np.where(meant >= 0, np.minimum(2 * sure, 1.0) * WRONG_OBJECT, np.where(explained, 0.0, sure))

        def message(place: int) -> str:
            return f"{case.relation(of[place])} holds both ways, but here the other way is missing."

        def suggestion(place: int) -> str:
            row, better = int(accused[place]), int(meant[place])
            if better >= 0:
                return f"object → {case.entity(facts.s[better])}, as {case.fact(better)} says?"
            span = case.span(int(facts.begin[row]), int(facts.end[row]))
            mirror = f"{case.entity(facts.o[row])}, {case.relation(facts.r[row])}, {case.entity(facts.s[row])}"
            return f"add ({mirror}, {span})?"

        def repairs(place: int) -> list[Repair]:
            row, better = int(accused[place]), int(meant[place])
            if better >= 0:
                return [case.otherwise(row, o=int(facts.s[better]))]
            return [replace(case.otherwise(row, s=int(facts.o[row]), o=int(facts.s[row])), adds=True)]

        found = block(
            accused,
            severity,
            message,
            suggestion,
            other=meant,
            holds=counts.holds,
            cases=counts.cases,
            repairs=repairs,
        )
        return self.accuse(found)


def _meant(facts: Facts, rows: Ints) -> Ints:
    """For each fact (s, r, o) without a mirror, another one (x, r, s) of the same span, or −1: was (s, r, x) meant?

    If (s, r, o) should read (s, r, x), one error explains both missing mirrors.
    """
    r, s, o = facts.r[rows], facts.s[rows], facts.o[rows]
    span = [
        np.tile(numbered(ends.astype(np.int64) - spans.OPEN_BEGIN)[0], 2)
        for ends in (facts.begin[rows], facts.end[rows])
    ]
    key, _ = numbered(np.tile(r, 2), np.concatenate([s, o]), *span)
    wanted, offered = key[: len(rows)], key[len(rows) :]
    order = np.argsort(offered, kind="stable")
    place = np.minimum(np.searchsorted(offered[order], wanted), max(len(rows) - 1, 0))
    at = order[place]
    dated = facts.dated[rows]
    return np.where((offered[at] == wanted) & dated, rows[at], -1)


def _mirrored(facts: Facts, rows: Ints) -> Bools:
    """Which of the given facts (s, r, o) have a fact (o, r, s)."""
    r, s, o = facts.r[rows], facts.s[rows], facts.o[rows]
    number, _ = numbered(np.tile(r, 2), np.concatenate([s, o]), np.concatenate([o, s]))
    return np.isin(number[len(rows) :], number[: len(rows)])
