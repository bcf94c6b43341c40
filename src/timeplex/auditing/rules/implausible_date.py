"""implausible-date: a date near which hardly any fact of its relation lies, and which no other fact supports."""

from typing import Any

import numpy as np

from timeplex.auditing.base import Block, Found, Rule, block, register
from timeplex.auditing.case import CERTAIN, LEAST_SEVERITY, AuditContext
from timeplex.auditing.evidence import habits, nearer

UNUSUAL = -1.5
"""ℓ_f below which a date is called implausible: wrong dates make it 4.5 times as likely as right ones."""


@register("implausible-date")
class ImplausibleDate(Rule):
    """Dates lie where the dates of their relation lie. The user's [[dates]] say from when to when."""

    family, says = "dates", "the date is far from those of its relation"

    def find(self, case: AuditContext) -> Found:
        """Facts whose date is unusual by itself, as severe as all evidence together says."""
        evidence, relation = case.evidence, case.facts.r.astype(np.int64)
        known = np.flatnonzero(evidence.known)
        usual = habits(relation[known], evidence.date[known], len(case.kb.relations))
        date, of = evidence.date[known], relation[known]
        distance = np.maximum(np.maximum(usual.low[of] - date, date - usual.high[of]), 0)
        low, high = evidence.plausible
        beyond = (date < low) | (date > high)
        holds = np.where(beyond, len(date) - beyond.sum(), nearer(of, distance))
        cases = np.where(beyond, len(date), usual.size[of]) - 1
        cases[~beyond & (distance == 0)] = 0  # within the usual range, but where hardly any is
        odd = np.flatnonzero((evidence.usual[known] <= UNUSUAL) & (evidence.wrong[known] >= LEAST_SEVERITY))

        def message(place: int) -> str:
            at = odd[place]
            name, written = case.relation(of[at]), case.date(date[at])
            if beyond[at]:
                return f"{written} is far from all other dates, which suggest {case.date(low)} to {case.date(high)}."
            if distance[at] == 0:
                return f"Hardly any {name} is dated near {written}."
            span = f"{case.date(usual.low[of[at]])} to {case.date(usual.high[of[at]])}"
            return f"{written} is far from the usual dates of {name}, {span}."

        mined = block(
            known[odd],
            evidence.wrong[known[odd]],
            message,
            lambda place: case.better_date(int(known[odd[place]])),
            holds=holds[odd],
            cases=cases[odd],
            repairs=lambda place: case.better_dates(int(known[odd[place]])),
        )
        return self.accuse(*_outside(case), mined)


def _outside(case: AuditContext) -> list[Block]:
    """What lies outside the user's [[dates]]."""
    return [_out_of_range(case, own, end) for own in case.own.of("dates") for end in ("begin", "end")]


def _out_of_range(case: AuditContext, own: dict[str, Any], end: str) -> Block:
    """The facts whose begin (or end) is outside of the range that the user gave, for all facts or a relation."""
    facts = case.facts
    date, known = (facts.begin, facts.has_begin) if end == "begin" else (facts.end, facts.has_end)
    first, last = own["from"][0], own["to"][1]
    wrong = known & ((date < first) | (date > last))
    if "relation" in own:
        wrong &= facts.r == own["relation"]
    rows = np.flatnonzero(wrong)
    span = f"{case.date(first)} to {case.date(last)}"
    return block(
        rows,
        CERTAIN,
        lambda place: f"The {end} {case.date(date[rows[place]])} is outside your range {span}.",
        lambda place: case.better_date(int(rows[place])),
        repairs=lambda place: case.better_dates(int(rows[place])),
    )
